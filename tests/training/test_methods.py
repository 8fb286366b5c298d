"""Methods: what holds for each of them, how params.yaml names them, and what they are given."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from fitting import batch, fit, gradients, in_double, method, model, same, weights
from pydantic import ValidationError
from small_study import data_nodes, load, run

from bgbias import plugins, seeds
from bgbias.attribution.smoothgrad import reference_embedding
from bgbias.engine import graph
from bgbias.errors import UserError
from bgbias.images.composite import blend_batch
from bgbias.models import inference
from bgbias.models import model as models
from bgbias.study import plan
from bgbias.study.cell import Cell
from bgbias.training import loop

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


def built(name: str, options: Options, of: str = "", **how: Any) -> Any:
    """With a loss for this method, or for another one."""
    return method(name, "cosface" if (of or name) in DCML else "contrastive", **how, **options)


@pytest.mark.parametrize(("frozen", "precision"), [(True, "fp32"), (False, "bf16")])
@pytest.mark.parametrize(("name", "on", "off"), NEUTRAL)
def test_a_neutral_setting_is_plain_training_bit_for_bit(
    name: str, on: Options, off: Options, frozen: bool, precision: str, tmp_path: Path
) -> None:
    plain = fit(built("plain", {}, name, frozen=frozen), tmp_path, "plain", precision=precision)
    neutral = fit(built(name, on | off, frozen=frozen), tmp_path, "neutral", precision=precision)
    assert neutral.keys() - plain.keys() == ({"dcml.environments.logits"} if name in DCML else set())
    assert same({k: neutral[k] for k in plain}, plain)
    other = fit(built(name, on, frozen=frozen), tmp_path, "other", precision=precision)
    assert any(not torch.equal(other[k], plain[k]) for k in other.keys() & plain.keys())


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
    made, plain = built(name, ON[name], frozen=False), built("plain", {}, name, frozen=False)
    before = dict(weights(plain))
    made.loss(batch())["loss"].backward()
    plain.loss(batch())["loss"].backward()
    found, expected = weights(made), weights(plain)
    assert all(torch.equal(found[k], expected[k]) for k in expected if ".running_" in k)
    assert not torch.equal(before["model.trunk.1.running_mean"], expected["model.trunk.1.running_mean"])
    assert made.model.trunk[1].track_running_stats


@pytest.mark.parametrize(
    ("name", "of", "options"),
    [
        *(("attr_loss", of, {"weight": 1.0}) for of in plugins.names("losses")),
        *((name, "arcface", {}) for name in ("attr_frac", "attr_emb")),
        *((name, "triplet", {"w_detach": False}) for name in SAM),
    ],
)
def test_training_follows_the_slope_of_what_is_added_to_the_loss(
    name: str, of: str, options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The derivative along a random direction of all weights, against the difference of two values."""
    made, given, step = in_double(method(name, of, **options)), batch(), 1e-7
    black = reference_embedding(made.model)  # no part of what is differentiated
    monkeypatch.setattr("bgbias.attribution.smoothgrad.reference_embedding", lambda model: black)
    part = "mining" if name in SAM else "penalty"
    named = {f"{n}.{k}": p for n, m in made.modules().items() for k, p in m.named_parameters()}
    generator = seeds.torch_generator("direction")
    directions = {k: torch.randn(p.shape, generator=generator, dtype=p.dtype) for k, p in named.items()}
    slopes = gradients(made, made.loss(given)[part])
    found = sum(float((slopes[k] * d).sum()) for k, d in directions.items())
    values = []
    for by in (step, -2 * step):
        for k, weight in named.items():
            weight.data.add_(directions[k], alpha=by)
        values.append(made.loss(given)[part].item())
    assert found == pytest.approx((values[0] - values[1]) / (2 * step), rel=1e-4, abs=1e-9)
    assert abs(found) > 1e-7


def test_options_that_make_no_sense_are_refused() -> None:
    for name, wrong, words in (
        ("patch_ns", {"smallest": 80}, "smallest is 80, largest 72: exchange them"),
        ("dcml_code", {"environments": 0}, "set attention to false"),
        ("mdprop", {"attacks": ["stax", "stax"]}, "named twice"),
        ("at", {"losses": "joint_half", "kappa": 0.5}, "one loss of all photos"),
        ("at", {"attacks": ["pgd"]}, "no 'pgd' in attacks"),
        ("s2sd", {"method": "sam_triplet"}, "'sam_triplet' cannot be distilled"),
        ("s2sd", {"method": "at", "options": {"epsilom": 1}}, r"options\.epsilom"),
        ("s2sd", {"method": "at", "options": {"images_per_class": 2}}, "beside method"),
        ("s2sd", {"widths": [0]}, "1 or more"),
        ("s2sd", {"method": "mdpro"}, r"no 'mdpro' in methods.*Did you mean 'mdprop'"),
    ):
        with pytest.raises((ValidationError, UserError), match=words):
            plugins.load("methods", name).Params(**wrong)


def test_every_method_is_held_to_this() -> None:
    held = {name for name, *_ in (*NEUTRAL, *LEARNED)}
    assert {*plugins.names("methods")} - held == {"plain", "bgaugment", "pretrained", "untrained"}


# In a study.

GAINS = {"kind": "gained", "rate": 0.5}


def with_methods(raw: dict[str, Any], *named: str, **entries: dict[str, Any]) -> dict[str, Any]:
    raw["methods"] = entries
    raw["grids"]["small"]["cells"][0] |= {"methods": list(named), "losses": ["contrastive"]}
    return raw


def cell(method: str) -> Cell:
    return Cell("squares", "pixels", "contrastive", method, 0)


def test_wrong_names_and_options_are_refused(tmp_path: Path, raw: dict[str, Any]) -> None:
    for entries, named, words in (
        ({"weak": GAINS | {"rat": 1}}, "weak", r"unknown key 'methods\.weak\.rat'\. Did you mean 'rate'\?"),
        ({"plain": {"rate": 1}}, "plain", r"'methods\.plain\.rate'\. Known keys: images_per_class"),
        ({"plain": GAINS}, "plain", "'plain' is a method itself; give the entry another name"),
        ({"weak/er": GAINS}, "plain", "'methods.weak/er' cannot be a name"),
        ({"gained+bgaugment": GAINS}, "plain", r"cannot be a name.*'\+bgaugment' is added where"),
        ({"weak": GAINS}, "waek", r"methods: 'waek' \(did you mean 'weak'\?\)"),
        ({"away": {"kind": "patch_ns", "alpha": 2}}, "away", "alpha is 2.0, but 'contrastive' compares"),
        ({"near": {"kind": "at", "attacks": ["mtax:2"]}}, "near", "but a batch of 8 .* at least 12"),
        ({}, "bgaugment+bgaugment", "makes no sense: bgaugment has its own use of backgrounds"),
        ({}, "attr_loss", r"'methods\.attr_loss\.weight' is missing; it must be a number of 0 or more"),
        ({}, "pretrained+bgaugment", "makes no sense: pretrained trains nothing"),
    ):
        with pytest.raises(UserError, match=words):
            plan.checked_cells(load(tmp_path, with_methods(raw, named, **entries)))


def test_options_are_in_digests_of_their_cells_alone(tmp_path: Path, raw: dict[str, Any]) -> None:
    names = ("plain", "bgaugment", "gained", "weak", "weak+bgaugment")

    def trained(**entries: dict[str, Any]) -> dict[str, str]:
        study = load(tmp_path, with_methods(raw, *names, **entries))
        return {name: graph.digest(study, "train", cell=cell(name)) for name in names}

    before = trained(weak=GAINS)
    assert len(set(before.values())) == len(names)
    assert trained(weak=GAINS, other={"kind": "gained"}) == before
    assert trained(weak=GAINS | {"noise": 0.0}, gained={"rate": 0.01}) == before  # the defaults, spelt out
    after = trained(weak=GAINS | {"rate": 0.6})
    assert {n for n in names if after[n] != before[n]} == {"weak", "weak+bgaugment"}
    after = trained(weak=GAINS, gained={"noise": 0.5})
    assert {n for n in names if after[n] != before[n]} == {"gained"}
    study = load(tmp_path, with_methods(raw, *names, weak=GAINS))
    for name in ("plain", "bgaugment"):
        assert "method" not in graph.spec(study, "train", cell=cell(name))


def test_a_combination_reads_and_selects_like_bgaugment(tmp_path: Path, raw: dict[str, Any]) -> None:
    raw["train"]["selection"] = "published"
    study = load(tmp_path, with_methods(raw, "gained", "gained+bgaugment"))
    alone, combined, cure = cell("gained"), cell("gained+bgaugment"), cell("bgaugment")
    assert plan.needs(study, combined) == plan.needs(study, cure)
    assert graph.inputs(study, "train", cell=combined) == graph.inputs(study, "train", cell=cure)
    assert plan.needs(study, alone) == frozenset()
    assert [plan.selection_condition(study, c) for c in (alone, combined)] == ["clean", "corrupted"]


def test_batches_have_as_many_photos_of_a_class_as_the_method_is_told(
    tmp_path: Path, raw: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = {
        "4": {"kind": "plain"},  # as the loss says
        "2": {"kind": "plain", "images_per_class": 2},
        "dcml_4": {"kind": "dcml_code"},
        "dcml_2": {"kind": "dcml_code", "images_per_class": 2},
    }
    study = load(tmp_path, with_methods(raw, *entries, **entries))
    data_nodes(study)
    drawn: list[int] = []

    def begin(method: Any, batches: Any, *_: Any) -> None:
        drawn.extend(n for one in batches(1) for n in one.labels.unique(return_counts=True)[1].tolist())
        raise KeyboardInterrupt

    monkeypatch.setattr(loop, "fit", begin)
    for name in entries:
        drawn.clear()
        with pytest.raises(KeyboardInterrupt):
            run(study, cell(name), "train")
        assert {*drawn} == {int(name[-1])}


def test_a_neck_stands_between_trunk_and_pooling_and_is_kept_with_the_model(tmp_path: Path) -> None:
    net = model().eval()
    x = net.preprocess(batch().images)
    neck = net.add_neck("gains", plugins.load("necks", "gains").Params(channels=net.embedder.in_features))
    neck.gains.data.copy_(torch.linspace(0, 2, neck.gains.numel()).view_as(neck.gains))  # type: ignore[union-attr, operator]
    expected = net.embed_features(neck(net.trunk(x)))
    models.save(net, tmp_path / "necked.safetensors")
    for necked in (net, models.load(tmp_path / "necked.safetensors"), inference.for_inference(net)):
        torch.testing.assert_close(necked(x), expected)
