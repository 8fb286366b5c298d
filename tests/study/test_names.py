"""What params.yaml calls things becomes parts of paths and commands: names that could be anything else are refused, and those of
variants say their settings.
"""

import re
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from project import ROOT
from small_study import load

from bgbias import plugins
from bgbias.datasets import folder
from bgbias.engine import forecast, graph
from bgbias.engine.node import step
from bgbias.errors import UserError
from bgbias.files.fetch import Source
from bgbias.nodes import train
from bgbias.study import plan, variants
from bgbias.study.cell import Cell
from bgbias.study.params import Study
from bgbias.study.sources import parts_of

pytestmark = pytest.mark.usefixtures("small_plugins")

INJECTIONS = (
    *("x$(touch INJECTED)", "x;touch INJECTED", "$HOME", "x\n", 'x"y', "x y", " x", "x\\y", "x*", "~"),
    *("..", "a/b", "-x", ".x", "", "{dataset}", "x:", "сub200", "café", "x\u202ey", "x\0y", "x" * 65),
)


@pytest.mark.parametrize(
    "kind", ["grids", "datasets", "maskers", "backgrounds", "backbones", "losses", "methods"]
)
def test_names_that_could_be_anything_are_refused(tmp_path: Path, raw: dict[str, Any], kind: str) -> None:
    entries = raw.get(kind) or {"mine": {"kind": "plain"}}
    entry = next(iter(entries.values()))
    load(tmp_path, raw | {kind: entries | dict.fromkeys(("CUB-200.v2_a", "2fold", "_x", "x" * 64), entry)})
    for name in INJECTIONS if kind == "datasets" else INJECTIONS[::6]:
        with pytest.raises(UserError, match=r"params\.yaml") as told:
            load(tmp_path, raw | {kind: entries | {name: entry}})
        text = str(told.value)
        assert re.search(rf"'{kind}\..*' cannot be a name: it becomes part of paths and commands", text), text
        assert text.isprintable()
        assert len(text) < 500
    assert not list(tmp_path.rglob("INJECTED"))


def test_variants_of_a_backbone_are_names(tmp_path: Path, raw: dict[str, Any]) -> None:
    load(tmp_path, raw | {"backbones": raw["backbones"] | {"timm:vit_tiny.in1k": {"weights": None}}})
    for variant in ("timm:", "timm:a/b", "timm:..", "timm:x$(sh)", "timm:a:b", "ti mm:a"):
        with pytest.raises(UserError, match=r"'backbones\..* cannot be a name"):
            load(tmp_path, raw | {"backbones": {variant: {}}})


def test_backbones_of_two_meanings_or_none_are_refused(tmp_path: Path, raw: dict[str, Any]) -> None:
    """Its kind says which file one of another name is."""

    def study(**backbones: dict[str, Any]) -> Study:
        return load(tmp_path, raw | {"backbones": raw["backbones"] | backbones})

    own = study(own={"kind": "pixels"})
    cells = [Cell("squares", name, "contrastive", "plain", 0) for name in ("own", "pixels")]
    of_own, of_pixels = (graph.spec(own, "train", cell=cell)["code"] for cell in cells)
    assert of_own == of_pixels
    with pytest.raises(UserError, match=r"backbones\.tiny is of kind 'pixels', but 'tiny' is a backbone"):
        study(tiny={"kind": "pixels"})
    with pytest.raises(UserError, match=r"backbones\.own.*wieghts"):
        study(own={"kind": "pixels", "wieghts": "w.pth"})
    with pytest.raises(UserError, match=r"pixels"):
        plan.check_cell(study(own={"kind": "pixel"}), cells[0])
    with pytest.raises(UserError, match=r"params\.yaml has no backbone 'nobody'; there are: pixels"):
        plan.backbone(own, "nobody")
    with pytest.raises(UserError, match=r"backbones\.forgot: .*needs a `kind`"):
        plan.backbone(study(forgot={"weights": None}), "forgot").params()


def test_files_of_plugins_and_parts_of_datasets_are_names_too(
    tmp_path: Path, raw: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    raw["datasets"]["squares"] |= {"kind": "folder", "options": {"source": "x.zip"}}
    study = load(tmp_path, raw)
    monkeypatch.setattr(folder, "parts", lambda params: {"x;y": (Source(place="x.zip"),)})
    with pytest.raises(UserError, match=r"folder\.py calls a file of its datasets"):
        parts_of(study, "squares")
    (tmp_path / "losses").mkdir()
    (tmp_path / "losses" / "x$(touch INJECTED).py").touch()
    with pytest.raises(UserError, match=r"cannot be a plugin's file: its name becomes part of paths"):
        plugins.use(tmp_path)


@pytest.mark.parametrize("root", ["checksums", "work"])
def test_paths_are_what_patterns_and_shells_can_spell(tmp_path: Path, raw: dict[str, Any], root: str) -> None:
    for wrong in ("", "x{y}", "x\ny", "~/data", "$HOME/data", "-x"):
        raw["paths"][root] = wrong
        with pytest.raises(UserError, match=rf"params\.yaml: 'paths\.{root}': .*\."):
            load(tmp_path, raw)
    for odd, spelt in (("./a//b/", "a/b"), ('it\'s a "disk"', 'it\'s a "disk"'), ("ä&b;c", "ä&b;c")):
        raw["paths"][root] = odd
        assert getattr(load(tmp_path, raw).paths, root) == spelt
    # The longest names have locks of their own that a disk takes.
    lock, other = (load(tmp_path, raw).files.at("locks", name="x" * 64 * 5 + end) for end in "ab")
    assert (lock != other, len(lock.name) < 255) == (True, True)


def test_every_rule_quotes_what_it_takes_from_paths() -> None:
    """What follows ``bgbias`` is quoted where it is made (engine/rules.py), the log by Snakemake."""
    rules = "".join(p.read_text(encoding="utf-8") for p in (ROOT / "workflow/rules").glob("*.smk"))
    (command,) = re.findall(r'^BGBIAS = "(.*)"$', rules, re.MULTILINE)
    assert command == "OMP_NUM_THREADS={threads} python -m bgbias {params} > {log:q} 2>&1"
    shells = re.findall(r"shell:\n\s+(.*)", rules)
    assert len(shells) > 10
    assert set(shells) == {"BGBIAS"}


# Several values of a setting: names that say them, cells that have them, and mistakes that name key and value.

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


def test_a_name_that_could_be_spelled_in_another_way_or_be_anything_else_is_refused() -> None:
    for name in (
        *("x+a=0.30", "x+b=1+a=1", "x+a=1+a=2", "x+bgaugment+a=1", "a=1+x"),
        *("x+a=", "x+a=[1]", "x+a=$(touch y)", "x+train.=1", "x+a=1e999"),
        f"x+a={'b' * variants.LONGEST}",
    ):
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
    untrained = swept(raw, {"train": SWEEP["train"]}, losses=[], methods=[], seeds=[], pretrained=True)
    with pytest.raises(UserError, match=r"sweep\.train changes the training of the block's losses, and"):
        load(tmp_path, untrained)


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


def test_a_variant_is_trained_by_the_study_of_its_own(tmp_path: Path, raw: dict[str, Any]) -> None:
    """Another one would train in another way than the record says."""
    study = load(tmp_path, swept(raw, {"train": {"lr": [0.001, 0.1]}}))
    _, fast = plan.cells(study)
    assert step("train", cell=fast).study(study).train.lr == 0.1
    with pytest.raises(UserError, match="neg_margin' must be a number from 0 to 2"):
        plan.check_cell(study, replace(fast, loss="contrastive+neg_margin=5"))
    with pytest.raises(ValueError, match="certified with other settings"):
        train.train(study, fast, "cpu")
