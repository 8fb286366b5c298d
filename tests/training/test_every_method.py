"""What holds for every method: its neutral setting is plain training bit for bit, and interruptions change nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from dcml_models import ALONE
from fitting import fit, method, same
from safetensors.torch import load_file
from small_study import data_nodes, described, history, load

from bgbias import plugins
from bgbias.nodes.train import train
from bgbias.study.cell import Cell

pytestmark = pytest.mark.usefixtures("small_plugins")

WIDTHS = {"widths": (5, 7)}
NORMS = {"batch_norm": "as_train"}
# What a method is told so that it does something, and what makes it neutral.
NEUTRAL: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    *((name, {}, {"gamma": 0.0}) for name in ("sam_siamese", "sam_triplet", "sam_quad")),
    *((name, {"weight": 100.0}, {"weight": 0.0}) for name in ("attr_loss", "attr_frac", "attr_emb")),
    *((name, {}, {"kappa": 0.0}) for name in ("patch_ns", "texture_ns", "bgneg", "bgneg_rect")),
    *(
        (name, NORMS, off)
        for name in ("at", "advprop_d", "mdprop")
        for off in ({"epsilon": 0.0}, {"kappa": 0.0})
    ),
    ("s2sd", WIDTHS, {"kappa": 0.0}),
]
DISTILLED = ("at", "mdprop")
LEARNED: list[tuple[str, dict[str, Any]]] = [
    *{name: on for name, on, _ in NEUTRAL}.items(),
    ("mdprop", {"attacks": ["stax", "mtax:3"]}),
    ("mdprop", {"batch_norm": "frozen", "losses": "joint_half"}),
    ("st_unfrozen", {}),
    # The step from which features are learned is counted through the interruption.
    ("s2sd", {**WIDTHS, "method": "mdprop", "features_after": 5}),
]
# Files of params.yaml, so that data, precision and background replacement are as in a study.
ENTRIES = {
    "attention": {"kind": "sam_quad", "gamma": 0},
    "penalty_of_loss": {"kind": "attr_loss", "weight": 0},
    "penalty_of_fraction": {"kind": "attr_frac", "weight": 0},
    "penalty_of_embedding": {"kind": "attr_emb", "weight": 0},
    "backgrounds": {"kind": "bgneg", "kappa": 0},
    "attacks": {"kind": "mdprop", "kappa": 0, "batch_norm": "as_train", "images_per_class": None},
    "distilled": {"kind": "s2sd", "kappa": 0, "widths": [5, 7]},
    "as_released": {"kind": "dcml_code", **ALONE},
    "as_printed": {"kind": "dcml_paper", **ALONE},
}


@pytest.mark.parametrize("frozen", [True, False])
@pytest.mark.parametrize(("name", "on", "off"), NEUTRAL)
def test_a_neutral_setting_is_plain_training_bit_for_bit(
    name: str, on: dict[str, Any], off: dict[str, Any], frozen: bool, tmp_path: Path
) -> None:
    plain = fit(method("plain", frozen=frozen), tmp_path, "plain")
    neutral = fit(method(name, frozen=frozen, **on | off), tmp_path, "neutral")
    assert same({k: v for k, v in neutral.items() if k in plain}, plain)
    other = fit(method(name, frozen=frozen, **on), tmp_path, "other")
    assert not same({k: v for k, v in other.items() if k in plain}, plain)


@pytest.mark.parametrize("inner", DISTILLED)
def test_distillation_without_its_share_is_the_method_alone(inner: str, tmp_path: Path) -> None:
    alone = fit(method(inner), tmp_path, "alone")
    assert same(fit(method("s2sd", method=inner, kappa=0.0, **WIDTHS), tmp_path, "neutral"), alone)


@pytest.mark.parametrize(("name", "options"), LEARNED)
def test_resumed_training_ends_as_an_uninterrupted_one(
    name: str, options: dict[str, Any], tmp_path: Path
) -> None:
    whole = fit(method(name, **options), tmp_path, "whole", 4)
    fit(method(name, **options), tmp_path, "broken", 2)
    torch.manual_seed(99)
    assert same(fit(method(name, seed=1, **options), tmp_path, "broken", 4), whole)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("replaced", ["", "+bgaugment"])
def test_neutral_methods_of_a_study_train_the_model_of_plain(
    replaced: str, precision: str, tmp_path: Path
) -> None:
    """Batch norm follows the batch in these trainings: what a method shows the network beside leaves its statistics alone."""
    raw = described(tmp_path)
    raw["train"] |= {"precision": precision, "max_epochs": 2}
    raw["methods"] = {"twin": {"kind": "plain"}, **ENTRIES}
    raw["grids"]["small"]["cells"][0] |= {"losses": ["contrastive"], "methods": [*raw["methods"]]}
    study = load(tmp_path, raw)
    data_nodes(study)
    made = {}
    for name in raw["methods"]:
        cell = Cell("squares", "pixels", "contrastive", name + replaced, 0)
        train(study, cell, "cpu")
        rows = history(study.files.at("history", **cell.wildcards))
        assert len(rows) == 2
        curve = [(row["loss"], row["val_map_at_r"]) for row in rows]
        made[name] = load_file(study.files.at("model", **cell.wildcards)), curve
    weights, curve = made.pop("twin")
    for name, (others, its_curve) in made.items():
        assert same(others, weights), name
        assert its_curve == curve, name


def test_every_method_is_held_to_this() -> None:
    held = (
        {name for name, *_ in NEUTRAL} | {name for name, _ in LEARNED} | {e["kind"] for e in ENTRIES.values()}
    )
    assert {*plugins.names("methods")} - held == {
        "plain",
        "bgaugment",
        "pretrained",
        "untrained",
        "st_2xbatch",
        "gained",
    }
