"""What holds for every method: its neutral setting is plain training bit for bit, and interruptions change nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from fitting import batch, fit, method, same, weights
from pydantic import ValidationError
from safetensors.torch import load_file
from small_study import data_nodes, described, history, load

from bgbias import plugins
from bgbias.errors import UserError
from bgbias.images.composite import blend_batch
from bgbias.nodes.train import train
from bgbias.study.cell import Cell

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
# Files of params.yaml, so that data, precision and background replacement are as in a study.
ENTRIES = {
    "attention": {"kind": "sam_quad", "gamma": 0},
    "penalty": {"kind": "attr_loss", "weight": 0},
    "backgrounds": {"kind": "bgneg", "kappa": 0},
    "attacks": {"kind": "mdprop", "kappa": 0, "batch_norm": "as_train", "images_per_class": None},
    "distilled": {"kind": "s2sd", "kappa": 0, "widths": [5, 7]},
    "environments": {"kind": "dcml_code", **ALONE},
}


def built(name: str, options: Options, **how: Any) -> Any:
    return method(name, "cosface" if name in DCML else "contrastive", **how, **options)


def plain_for(name: str, **how: Any) -> Any:
    return method("plain", "cosface" if name in DCML else "contrastive", **how)


@pytest.mark.parametrize("frozen", [True, False])
@pytest.mark.parametrize(("name", "on", "off"), NEUTRAL)
def test_a_neutral_setting_is_plain_training_bit_for_bit(
    name: str, on: Options, off: Options, frozen: bool, tmp_path: Path
) -> None:
    plain = fit(plain_for(name, frozen=frozen), tmp_path, "plain")
    neutral = fit(built(name, on | off, frozen=frozen), tmp_path, "neutral")
    assert neutral.keys() - plain.keys() == ({"dcml.environments.logits"} if name in DCML else set())
    assert same({k: neutral[k] for k in plain}, plain)
    other = fit(built(name, on, frozen=frozen), tmp_path, "other")
    assert any(not torch.equal(other[k], plain[k]) for k in other.keys() & plain.keys())


@pytest.mark.parametrize("inner", ["at", "mdprop"])
def test_distillation_without_its_share_is_the_method_alone(inner: str, tmp_path: Path) -> None:
    alone = fit(method(inner), tmp_path, "alone")
    assert same(fit(method("s2sd", method=inner, kappa=0.0, **WIDTHS), tmp_path, "neutral"), alone)


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


def test_neutral_methods_of_a_study_train_the_model_of_plain(tmp_path: Path) -> None:
    """In bfloat16, on replaced backgrounds, with batch norm that follows the batch."""
    raw = described(tmp_path)
    raw["train"] |= {"precision": "bf16", "max_epochs": 2}
    raw["methods"] = {"twin": {"kind": "plain"}, **ENTRIES}
    raw["grids"]["small"]["cells"][0] |= {"losses": ["contrastive"], "methods": [*raw["methods"]]}
    study = load(tmp_path, raw)
    data_nodes(study)
    made = {}
    for name in raw["methods"]:
        cell = Cell("squares", "pixels", "contrastive", f"{name}+bgaugment", 0)
        train(study, cell, "cpu")
        rows = history(study.files.at("history", **cell.wildcards))
        curve = [(row["loss"], row["val_map_at_r"]) for row in rows]
        made[name] = load_file(study.files.at("model", **cell.wildcards)), curve
    expected, curve = made.pop("twin")
    assert len(curve) == 2
    for name, (others, its_curve) in made.items():
        assert same(others, expected), name
        assert its_curve == curve, name


@pytest.mark.parametrize(
    ("name", "wrong", "words"),
    [
        ("sam_siamese", {"only_satisfied": True}, "Extra inputs"),
        ("sam_triplet", {"gama": 0.2}, "Extra inputs"),
        ("sam_quad", {"anchors": 0}, "greater than or equal"),
        ("sam_quad", {"score": "signed"}, "published"),
        ("patch_ns", {"smallest": 80}, "smallest is 80, largest 72: exchange them"),
        ("dcml_code", {"environments": 0}, "set attention to false"),
        ("mdprop", {"attacks": []}, "at least 1"),
        ("mdprop", {"attacks": ["stax", "stax"]}, "named twice"),
        ("at", {"losses": "joint_half", "kappa": 0.5}, "one loss of all photos"),
        ("advprop_d", {"attacks": ["mtax:3"]}, "Extra inputs"),
        ("st_unfrozen", {"batch_norm": "frozen"}, "trained"),
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
