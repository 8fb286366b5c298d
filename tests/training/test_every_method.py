"""What holds for every method: its neutral setting is plain training bit for bit, and interruptions change nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from fitting import batch, fit, method, same, weights
from pydantic import ValidationError

from bgbias import plugins
from bgbias.errors import UserError
from bgbias.images.composite import blend_batch

pytestmark = pytest.mark.usefixtures("small_plugins")

Options = dict[str, Any]
SAM, PENALTIES = ("sam_siamese", "sam_triplet", "sam_quad"), ("attr_loss", "attr_frac", "attr_emb")
NEGATIVES = ("patch_ns", "texture_ns", "bgneg", "bgneg_rect")
ADVERSARIAL, DCML = ("at", "advprop_d", "mdprop"), ("dcml_code", "dcml_paper")
WIDTHS = {"widths": (5, 7)}
ALONE = {"environments": 0, "attention": False, "images_per_class": None}
# What a method is told so that it does something, and what makes it neutral.
NEUTRAL: list[tuple[str, Options, Options]] = [
    *((name, {}, {"gamma": 0.0}) for name in SAM),
    *((name, {"weight": 100.0}, {"weight": 0.0}) for name in PENALTIES),
    *((name, {}, {"kappa": 0.0}) for name in NEGATIVES),
    ("patch_ns", {}, {"alpha": 0.0}),
    *((name, {"batch_norm": "as_train"}, {"epsilon": 0.0}) for name in ADVERSARIAL),
    ("mdprop", {"batch_norm": "as_train"}, {"kappa": 0.0}),
    ("s2sd", WIDTHS, {"kappa": 0.0}),
    *((name, {"weights": "random"}, ALONE) for name in DCML),
]
ON = {name: on for name, on, _ in NEUTRAL}
LEARNED: list[tuple[str, Options]] = [
    *((name, on) for name, on in ON.items() if name not in DCML),
    # Environments that are restored before the third epoch, and learned again before the fourth.
    *((name, {"update_every": 3, "passes": 2}) for name in DCML),
    ("mdprop", {"attacks": ["stax", "mtax:3"]}),
    ("mdprop", {"batch_norm": "frozen", "losses": "joint_half"}),
    ("st_unfrozen", {}),
    ("st_2xbatch", {}),
    # The step from which features are learned is counted through the interruption.
    ("s2sd", {**WIDTHS, "method": "mdprop", "features_after": 5}),
    ("gained", {}),
]


def built(name: str, options: Options, **how: Any) -> Any:
    return method(name, "cosface" if name in DCML else "contrastive", **how, **options)


def plain_for(name: str, **how: Any) -> Any:
    return method("plain", "cosface" if name in DCML else "contrastive", **how)


@pytest.mark.parametrize(("frozen", "precision"), [(True, "fp32"), (False, "bf16")])
@pytest.mark.parametrize(("name", "on", "off"), NEUTRAL)
def test_a_neutral_setting_is_plain_training_bit_for_bit(
    name: str, on: Options, off: Options, frozen: bool, precision: str, tmp_path: Path
) -> None:
    plain = fit(plain_for(name, frozen=frozen), tmp_path, "plain", precision=precision)
    neutral = fit(built(name, on | off, frozen=frozen), tmp_path, "neutral", precision=precision)
    assert neutral.keys() - plain.keys() == ({"dcml.environments.logits"} if name in DCML else set())
    assert same({k: neutral[k] for k in plain}, plain)
    other = fit(built(name, on, frozen=frozen), tmp_path, "other", precision=precision)
    assert any(not torch.equal(other[k], plain[k]) for k in other.keys() & plain.keys())


def test_distillation_without_its_share_is_the_method_alone(tmp_path: Path) -> None:
    alone = fit(method("mdprop"), tmp_path, "alone")
    assert same(fit(method("s2sd", method="mdprop", kappa=0.0, **WIDTHS), tmp_path, "neutral"), alone)


def test_trained_norms_alone_are_plain_training_with_norms_that_learn(tmp_path: Path) -> None:
    plain = fit(method("plain", frozen=False), tmp_path, "plain")
    assert same(fit(method("st_unfrozen"), tmp_path, "unfrozen"), plain)


@pytest.mark.parametrize(("name", "options"), LEARNED)
def test_resumed_training_ends_as_an_uninterrupted_one(name: str, options: Options, tmp_path: Path) -> None:
    whole = fit(built(name, options), tmp_path, "whole", 4)
    fit(built(name, options), tmp_path, "broken", 2)
    torch.manual_seed(99)
    assert same(fit(built(name, options, seed=1), tmp_path, "broken", 4), whole)


@pytest.mark.parametrize("name", ["plain", "bgaugment", *(name for name in ON if "bgneg" not in name)])
def test_photos_on_replaced_backgrounds_are_all_that_a_method_sees(name: str) -> None:
    given, options = batch(), ON.get(name, {})
    mixed = blend_batch(given.images, given.masks, given.backgrounds)  # type: ignore[arg-type]
    replacing, usual = built(name, options), built("plain" if name == "bgaugment" else name, options)
    replacing.replaces_backgrounds = True
    found = replacing.loss(given)["loss"]
    assert torch.equal(found, usual.loss(replace(given, images=mixed))["loss"])
    assert not torch.equal(found, usual.loss(given)["loss"])
    with pytest.raises(ValueError, match="batches with masks"):
        replacing.loss(replace(given, masks=None))


@pytest.mark.parametrize("name", [name for name in ON if name != "at"])  # whose photos share one norm
def test_statistics_are_learned_from_photos_alone(name: str) -> None:
    """What a method shows the network beside them moves no norm of the model."""
    made, plain = built(name, ON[name], frozen=False), plain_for(name, frozen=False)
    before = dict(weights(plain))
    made.loss(batch())["loss"].backward()
    plain.loss(batch())["loss"].backward()
    found, expected = weights(made), weights(plain)
    assert all(torch.equal(found[k], expected[k]) for k in expected if ".running_" in k)
    assert not torch.equal(before["model.trunk.1.running_mean"], expected["model.trunk.1.running_mean"])
    assert made.model.trunk[1].track_running_stats


@pytest.mark.parametrize(
    ("name", "wrong", "words"),
    [
        ("patch_ns", {"smallest": 80}, "smallest is 80, largest 72: exchange them"),
        ("dcml_code", {"environments": 0}, "set attention to false"),
        ("mdprop", {"attacks": ["stax", "stax"]}, "named twice"),
        ("at", {"losses": "joint_half", "kappa": 0.5}, "one loss of all photos"),
        ("at", {"attacks": ["pgd"]}, "no 'pgd' in attacks"),
        ("s2sd", {"method": "sam_triplet"}, "'sam_triplet' cannot be distilled"),
        ("s2sd", {"method": "s2sd"}, "'s2sd' cannot be distilled"),
        ("s2sd", {"method": "at", "options": {"epsilom": 1}}, r"options\.epsilom"),
        ("s2sd", {"method": "at", "options": {"images_per_class": 2}}, "beside method"),
        ("s2sd", {"widths": [0]}, "1 or more"),
        ("s2sd", {"method": "mdpro"}, r"no 'mdpro' in methods.*Did you mean 'mdprop'"),
    ],
)
def test_options_that_make_no_sense_are_refused(name: str, wrong: Options, words: str) -> None:
    with pytest.raises((ValidationError, UserError), match=words):
        plugins.load("methods", name).Params(**wrong)


def test_every_method_is_held_to_this() -> None:
    held = {name for name, *_ in (*NEUTRAL, *LEARNED)}
    assert {*plugins.names("methods")} - held == {"plain", "bgaugment", "pretrained", "untrained"}
