"""Several values of a setting: names that say them, cells that have them, and mistakes that name key and value."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from small_study import data_nodes, load, record, run

from bgbias.engine import forecast, graph
from bgbias.engine.node import step
from bgbias.errors import UserError
from bgbias.nodes import train
from bgbias.study import plan, variants
from bgbias.study.cell import Cell

pytestmark = pytest.mark.usefixtures("small_plugins")
SWEEP = {
    "losses": {"contrastive": {"neg_margin": [0.3, 0.5]}},
    "methods": {"gained": {"noise": [1, 2.5]}},
    "train": {"lr": ["1e-4", 1.0e-3, 20.0]},
}


def swept(raw: dict[str, Any], sweep: Any, **block: Any) -> dict[str, Any]:
    """The study with a sweep in its only block."""
    below = raw["grids"]["small"]["cells"][0] | {"losses": ["contrastive"], "methods": ["plain"]}
    return raw | {"grids": {"small": {"cells": [below | block | {"sweep": sweep}]}}}


@pytest.mark.parametrize(
    ("name", "alone", "changed"),
    [
        ("attr_frac+bgaugment", "attr_frac+bgaugment", {}),
        ("attr_frac+photos=8+weight=1e-05+bgaugment", "attr_frac+bgaugment", {"photos": 8, "weight": 1e-5}),
        ("x+train.embedder_lr=null+y=true+z=cosine", "x", {"train.embedder_lr": None, "y": True, "z": "cosine"}),
        ("dcml_code+alpha=-1.5+512d", "dcml_code+512d", {"alpha": -1.5}),
    ],
)  # fmt: skip
def test_a_name_says_its_settings_and_no_two_the_same(name: str, alone: str, changed: dict[str, Any]) -> None:
    assert variants.parse_name(name) == (alone, changed)
    assert variants.format_name(alone, changed) == name


@pytest.mark.parametrize(
    "name",
    [
        *("x+a=0.30", "x+b=1+a=1", "x+a=1+a=2", "x+bgaugment+a=1", "a=1+x"),
        *("x+a=", "x+a=[1]", "x+a=$(touch y)", "x+train.=1", "x+a=1e999"),
        f"x+a={'b' * variants.LONGEST}",
    ],
)
def test_a_name_that_could_be_spelled_in_another_way_or_be_anything_else_is_refused(name: str) -> None:
    with pytest.raises(UserError, match=r"is no variant|is too long"):
        variants.parse_name(name)


def test_two_sweeps_are_a_product_in_the_order_of_the_file(tmp_path: Path, raw: dict[str, Any]) -> None:
    study = load(tmp_path, swept(raw, SWEEP, methods=["plain", "gained", "gained+bgaugment"]))
    losses = [
        f"contrastive+neg_margin={margin}+train.lr={lr}"
        for margin, lr in product(("0.3", "0.5"), ("0.0001", "0.001", "20"))
    ]
    methods = ["plain", *(f"gained+noise={g}{on}" for on in ("", "+bgaugment") for g in ("1", "2.5"))]
    cells = plan.checked_cells(study)
    assert [(c.loss, c.method) for c in cells] == list(product(losses, methods))
    assert len({graph.digest(study, "train", cell=cell) for cell in cells}) == len(cells)
    trained, last = plan.study_for_cell(study, cells[-1]), cells[-1]
    assert (trained.train.lr, plan.loss_params(trained, last).neg_margin) == (20, 0.5)  # type: ignore[attr-defined]
    method = plan.method(trained, last)
    assert (method.params().noise, method.replaces) == (2.5, True)
    # Its training is another one in what its name says, and in nothing else.
    cell = replace(last, loss="contrastive")
    own, other = (graph.spec(study, "train", cell=c) for c in (cell, replace(last, loss=losses[2])))
    assert other["train"] == own["train"] | {"lr": 20}
    assert other["loss"] == own["loss"] | {"neg_margin": 0.3}
    assert {key for key in own if own[key] != other[key]} == {"subject", "train", "loss"}
    assert forecast.forecast(study)["train"].nodes == len(cells)
    words = "sweep.train changes the training of the block's losses, and there"
    with pytest.raises(UserError, match=words):
        load(
            tmp_path, swept(raw, {"train": SWEEP["train"]}, losses=[], methods=[], seeds=[], pretrained=True)
        )


@pytest.mark.parametrize(
    ("sweep", "told"),
    [
        ({"losses": {"contrastive": {"neg_margin": [0.3, 5]}}}, r"\.sweep\.losses\.contrastive\.neg_margin' .*found: 5"),
        ({"losses": {"arcface": {"margin": [1]}}}, r"': sweep\.losses names 'arcface', which is none of the block's"),
        ({"methods": {"gained": {"noise": [1, "x"]}}}, r"\.sweep\.methods\.gained\.noise' .*found: \"x\""),
        ({"train": {"lr": [1, 1.0]}}, r"\.sweep\.train\.lr': 1 is named twice"),
        ({"train": {"frozen": [["layer1"]]}}, r"frozen\.0': one number or word at a time"),
        ({"train": {"optimizer": ["x$(touch y)"]}}, r"optimizer\.0': a name cannot hold"),
        ({"train": {"selection": ["clean"]}}, r"train\.selection is one for all models of a grid"),
        ({"trian": {"lr": [1]}}, r"\.sweep\.trian'\. Did you mean 'train'"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_told_by_key(tmp_path: Path, raw: dict[str, Any], sweep: Any, told: str) -> None:
    """Also in a grid that was not chosen."""
    wrong = swept(raw, sweep, methods=["plain", "gained"])
    wrong["grids"] = raw["grids"] | {"idle": wrong["grids"]["small"]}
    with pytest.raises(UserError, match=rf"'grids\.idle\.cells\.0.*{told}"):
        load(tmp_path, wrong)


def test_a_command_refuses_a_variant_that_cannot_be(tmp_path: Path, raw: dict[str, Any]) -> None:
    study = load(tmp_path, raw)
    for loss, words in (
        ("contrastive+neg_margin=5", "neg_margin' must be a number from 0 to 2"),
        ("contrastive+train.rl=1", "unknown key .*rl'. Did you mean 'lr'"),
        ("contrastive+train.batch_size=4", "is one for all models of a grid"),
        ("contrastiv+neg_margin=1", "Did you mean 'contrastive'"),
    ):
        with pytest.raises(UserError, match=words):
            plan.check_cell(study, Cell("squares", "pixels", loss, "plain", 0))


def test_a_variant_trains_with_the_values_of_its_record(tmp_path: Path, raw: dict[str, Any]) -> None:
    study = load(tmp_path, swept(raw, {"train": {"lr": [0.001, 0.1]}}))
    data_nodes(study)
    slow, fast = plan.cells(study)
    for cell in (slow, fast):
        run(step("train", cell=cell).study(study), cell, "train")
    rates = [record(study, "train_record", **c.wildcards)["spec"]["train"]["lr"] for c in (slow, fast)]
    assert rates == [0.001, 0.1]
    curves = [pd.read_csv(study.files.at("history", **c.wildcards))["loss"] for c in (slow, fast)]
    assert curves[0][1] != curves[1][1]
    # A study that is not its own would train in another way than the record says.
    with pytest.raises(ValueError, match="certified with other settings"):
        train.train(study, fast, "cpu")
