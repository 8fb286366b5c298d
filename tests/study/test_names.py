"""What params.yaml calls things becomes parts of paths and commands: names that could be anything else are refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from project import ROOT
from small_study import described, load

from bgbias import plugins
from bgbias.datasets import folder
from bgbias.engine import graph
from bgbias.errors import UserError
from bgbias.files.fetch import Source
from bgbias.study import plan
from bgbias.study.cell import Cell
from bgbias.study.params import Study
from bgbias.study.sources import parts_of

pytestmark = pytest.mark.usefixtures("small_plugins")

INJECTIONS = (
    *("x$(touch INJECTED)", "x;touch INJECTED", "$HOME", "x\n", 'x"y', "x y", " x", "x\\y", "x*", "~"),
    *("..", "a/b", "-x", ".x", "", "{dataset}", "x:", "сub200", "café", "x\u202ey", "x\0y", "x" * 65),
)
SOME = INJECTIONS[::6]
KINDS = ("grids", "datasets", "maskers", "backgrounds", "backbones", "losses", "methods")


def entry(raw: dict[str, Any], kind: str) -> Any:
    """What stands behind some name of this kind already."""
    return next(iter(raw[kind].values())) if kind in raw else {"kind": "plain"}


@pytest.mark.parametrize("kind", KINDS)
def test_names_that_could_be_anything_are_refused(tmp_path: Path, raw: dict[str, Any], kind: str) -> None:
    for name in INJECTIONS if kind == "datasets" else SOME:
        changed = raw | {kind: {**raw.get(kind, {}), name: entry(raw, kind)}}
        with pytest.raises(UserError, match=r"params\.yaml") as told:
            load(tmp_path, changed)
        text = str(told.value)
        assert re.search(rf"'{kind}\..*' cannot be a name: it becomes part of paths and commands", text), text
        assert text.isprintable()
        assert len(text) < 500
    assert not list(tmp_path.rglob("INJECTED"))


def test_usual_names_and_variants_of_a_backbone_are_taken(tmp_path: Path, raw: dict[str, Any]) -> None:
    for kind in KINDS:
        fine = dict.fromkeys(("CUB-200.v2_a", "2fold", "_x", "x..y", "x" * 64), entry(raw, kind))
        load(tmp_path, raw | {kind: {**raw.get(kind, {}), **fine}})
    raw["backbones"]["timm:vit_tiny.in1k"] = {"weights": None}
    load(tmp_path, raw)
    for variant in ("timm:", "timm:a/b", "timm:..", "timm:x$(sh)", "timm:a:b", "ti mm:a"):
        with pytest.raises(UserError, match=r"'backbones\..* cannot be a name"):
            load(tmp_path, raw | {"backbones": {variant: {}}})


@pytest.mark.parametrize("name", SOME)
def test_what_else_names_things_takes_none_of_these(tmp_path: Path, raw: dict[str, Any], name: str) -> None:
    for key in ("masker", "backgrounds", "kind"):
        changed = described(tmp_path)
        changed["datasets"]["squares"][key] = name
        with pytest.raises(UserError):
            graph.in_order(load(tmp_path, changed))
    for key in ("datasets", "backbones", "losses", "methods", "seeds"):
        changed = described(tmp_path)
        changed["grids"]["small"]["cells"][0][key] = [name]
        with pytest.raises(UserError):
            load(tmp_path, changed)
    with pytest.raises(UserError):
        load(tmp_path, raw | {"evaluation": {"conditions": ["clean", "random_background", name]}})
    with pytest.raises(UserError, match=r"params\.yaml"):
        load(tmp_path, raw | {"grid": name})


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


def test_the_longest_names_have_locks_that_a_disk_takes(tmp_path: Path, raw: dict[str, Any]) -> None:
    files = load(tmp_path, raw).files
    longest = "train__" + "x" * 64 * 5
    lock, other = (files.at("locks", name=longest + end) for end in "ab")
    assert lock != other
    assert len(lock.name) < 255


def test_every_rule_quotes_what_it_takes_from_paths() -> None:
    """What follows ``bgbias`` is quoted where it is made (engine/rules.py), the log by Snakemake."""
    rules = "".join(p.read_text(encoding="utf-8") for p in (ROOT / "workflow/rules").glob("*.smk"))
    (command,) = re.findall(r'^BGBIAS = "(.*)"$', rules, re.MULTILINE)
    assert command == "OMP_NUM_THREADS={threads} python -m bgbias {params} > {log:q} 2>&1"
    shells = re.findall(r"shell:\n\s+(.*)", rules)
    assert len(shells) > 10
    assert set(shells) == {"BGBIAS"}
