"""dvc.yaml names all that its stages' nodes read: what it leaves out, DVC would not see change."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pretended
import pytest
import yaml
from project import ROOT

from bgbias.engine import digests, graph
from bgbias.engine.node import Node, step
from bgbias.errors import UserError
from bgbias.study import params
from bgbias.study.params import Study

GRIDS = ("negatives", "cub50", "paper")
NAMED = (
    "datasets",
    "maskers",
    "backgrounds",
    "backbones",
    "pretrainings",
    "losses",
    "methods",
)  # entries by name
Path_ = tuple[str, ...]
OPENING = (yaml.FlowMappingStartToken, yaml.FlowSequenceStartToken)
CLOSING = (yaml.FlowMappingEndToken, yaml.FlowSequenceEndToken)


class Stages:
    """The stages of dvc.yaml as one grid has them."""

    def __init__(self, study: Study) -> None:
        text = (ROOT / "dvc.yaml").read_text(encoding="utf-8").replace("${grid}", study.grid)
        for root in ("work", "runs", "report"):
            text = text.replace(f"${{paths.{root}}}", getattr(study.paths, root))
        self.study = study
        self._known: dict[Node, str] = {}
        self._described = yaml.load(text, yaml.CSafeLoader)["stages"]

    def of(self, node: Node) -> str:
        """The stage that keeps a node's products; empty where none does (archives, weights)."""
        if node not in self._known:
            record = str(node.record(self.study))
            self._known[node] = next((s for s in self._described if _below(record, self.outs(s))), "")
        return self._known[node]

    def outs(self, stage: str) -> list[str]:
        described = self._described[stage]
        entries = [e for kind in ("outs", "metrics", "plots") for e in described.get(kind, [])]
        assert all(next(iter(e.values()))["persist"] for e in entries)
        return [next(iter(e)) for e in entries]

    def deps(self, stage: str) -> list[str]:
        return list(self._described[stage]["deps"])

    def params(self, stage: str) -> list[str]:
        return [p for p in self._described[stage]["params"] if isinstance(p, str)]

    def code(self, stage: str) -> set[str]:
        code = [p for p in self._described[stage]["params"] if isinstance(p, dict)]
        (names,) = [names for file in code for names in file.values()]
        return set(names)


@pytest.mark.parametrize("name", ["params.yaml", "dvc.yaml"])
def test_every_dvc_can_read_it(name: str) -> None:
    """That of conda has a fast parser, which refuses plain words with a colon inside braces or brackets."""
    depth = 0
    for token in yaml.scan((ROOT / name).read_text(encoding="utf-8")):
        depth += isinstance(token, OPENING) - isinstance(token, CLOSING)
        refused = depth and isinstance(token, yaml.ScalarToken) and token.plain and ":" in token.value
        assert not refused, f"{name} line {token.start_mark.line + 1}: {token.value}"


@pytest.fixture(params=GRIDS)
def stages(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Stages:
    monkeypatch.chdir(ROOT)
    return Stages(params.load(ROOT / "params.yaml", request.param))


def test_every_product_is_kept_by_one_stage(stages: Stages) -> None:
    for node in graph.in_order(stages.study):
        if node.name not in ("fetch", "weights") and not _made_with_the_report(stages, node):
            made = [*pretended.outputs(stages.study, node), node.record(stages.study)]
            assert all(_below(str(p), stages.outs(stages.of(node))) for p in made), node.label


def test_a_stage_depends_on_what_its_nodes_read_from_others(stages: Stages) -> None:
    study = stages.study
    for node in filter(stages.of, graph.in_order(study)):
        known = [*stages.deps(stages.of(node)), *stages.outs(stages.of(node)), study.paths.raw]
        for made in graph.made_for(study, node).values():
            if not _made_with_the_report(stages, made.node):
                for file in (made.path(study), made.node.record(study)):
                    assert _below(str(file), known), (node.label, file)


def _made_with_the_report(stages: Stages, node: Node) -> bool:
    """A table that only some grids have."""
    return node.name == "table" and not stages.of(node)


def test_a_stage_names_the_code_of_its_nodes(stages: Stages) -> None:
    for node in graph.in_order(stages.study):
        if stages.of(node):
            # Fetched archives and weights are kept by no stage: whoever reads them answers for them.
            archives = [n for n in graph.reads_from(stages.study, node) if not stages.of(n)]
            assert {n.name for n in (node, *archives)} <= stages.code(stages.of(node)), node.label


def test_nothing_of_params_reaches_a_shell() -> None:
    """DVC fills names in before anybody checks them, and a shell runs what it is given."""
    stages = yaml.safe_load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))["stages"]
    assert stages.keys() >= {"code", "data", "models", "table1", "report"}
    assert not [name for name, stage in stages.items() if "$" in stage["cmd"]]


def test_what_no_stage_keeps_is_made_again_with_the_report(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Tables from the fourth on: only some grids have them, and a stage's products are the same files for all of them."""
    monkeypatch.chdir(ROOT)
    for grid, tables in (("rivals", ["table4"]), ("controls", [f"table{n}" for n in (10, 5, 6, 7, 8)])):
        study = params.load(ROOT / "params.yaml", grid)
        stages = Stages(study)
        kept_by_none = [n for n in graph.in_order(study) if not stages.of(n)]
        others = [n.of for n in kept_by_none if n.name not in ("fetch", "weights")]
        assert sorted(others) == tables
    assert {"table", "figure"} <= stages.code("report")


@pytest.mark.parametrize("stages", [*GRIDS, "rivals"], indirect=True)
def test_a_setting_that_a_node_reads_is_named_by_its_stage(
    stages: Stages, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each setting of params.yaml is edited in turn; what follows from another stage's products is that stage's affair. Of the
    entries that the grid does not name one stands for all.
    """
    raw = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))
    grid = stages.study.grid
    # Other grids would only be checked, each time. One model of each dataset is enough to read everything, and one dataset of the
    # largest grid.
    block = raw["grids"][grid]["cells"][0] | {"seeds": [0, 1]}
    cells = [block | {"datasets": block["datasets"][:1]}]
    raw |= {"grid": grid, "grids": {grid: raw["grids"][grid] | {"cells": cells}}}
    raw |= {section: _few(raw, section) for section in NAMED}
    monkeypatch.setattr(params, "read_yaml", lambda path: raw)
    stages.study = params.load(ROOT / "params.yaml", grid)
    # Which plugins there are does not change; to look for them is half of what reading params.yaml takes.
    monkeypatch.setattr(params.plugins, "use", lambda *folders: None)
    before = _own(stages, stages.study, monkeypatch)
    noticed = 0
    for key in _leaves(raw):
        if key[0] in ("grid", "paths") or (key[0] == "grids" and key[1] != grid):
            continue
        for edited in _edits(raw, key):
            monkeypatch.setattr(params, "read_yaml", lambda path, edited=edited: edited)
            try:
                after = _own(stages, params.load(ROOT / "params.yaml", grid), monkeypatch)
            except (UserError, AssertionError):
                continue
            changed = {stages.of(n) for n in before.keys() & after.keys() if before[n] != after[n]}
            noticed += bool(changed - {""})
            for stage in changed - {""}:
                named = [tuple(p.split(".")) for p in stages.params(stage)]
                assert any(key[: len(n)] == n for n in named), f"{stage} reads {'.'.join(key)}"
            break
    assert noticed > 20


def _own(stages: Stages, study: Study, monkeypatch: pytest.MonkeyPatch) -> dict[Node, str]:
    """What each node reads itself: not what the products of stages tell it, which DVC sees change."""
    whole = digests.digest

    def of_archives(study: Study, name: str, /, **subject: Any) -> str:
        return "" if stages.of(step(name, **subject)) else whole(study, name, **subject)

    with monkeypatch.context() as patched:
        patched.setattr(digests, "digest", of_archives)
        specs = {n: digests.spec(study, n.name, **n.keywords) for n in graph.in_order(study)}
    return {n: json.dumps(spec, sort_keys=True, default=str) for n, spec in specs.items()}


def _few(raw: dict[str, Any], section: str) -> dict[str, Any]:
    """The section's entries that the grids name, or that these name in turn, and one more."""
    named, found = set[str](), {text for text in _texts(raw["grids"])}
    while found - named:
        named |= found
        found = {
            text
            for part in NAMED
            for name, entry in raw[part].items()
            if name in named
            for text in _texts(entry)
        }
    others = [name for name in raw[section] if name not in named]
    return {name: entry for name, entry in raw[section].items() if name in named or name in others[:1]}


def _texts(value: Any) -> Iterator[str]:
    """All words in a value, of which names are made; of a mixture of methods each one's."""
    if isinstance(value, dict):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)
    elif isinstance(value, str):
        yield from (value, *value.split("+"))


def _leaves(value: Any, key: Path_ = ()) -> Iterator[Path_]:
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from _leaves(inner, (*key, name))
    else:
        yield key


def _edits(raw: dict[str, Any], key: Path_) -> Iterator[dict[str, Any]]:
    """Copies of params.yaml with one value changed, some of which are refused."""
    value: Any = raw
    for name in key:
        value = value[name]
    others: list[Any] = []
    if isinstance(value, bool):
        others = [not value]
    elif isinstance(value, int | float):
        others = [value + 1, value - 1, value * 0.9]
    elif isinstance(value, list) and len(value) > 1:
        others = [value[:-1], value[1:]]
    elif isinstance(value, str):
        family = {"masker": raw["maskers"], "backgrounds": raw["backgrounds"], "losses": raw["datasets"]}
        others = [
            n
            for n in family.get(key[-1], ["corrupted", "cosine", "adamw", "bf16", "threshold"])
            if n != value
        ]
    for other in others:
        edited = copy.deepcopy(raw)
        inner = edited
        for name in key[:-1]:
            inner = inner[name]
        inner[key[-1]] = other
        yield edited


def _below(path: str, folders: list[str]) -> bool:
    return any(Path(path) == Path(f) or Path(f) in Path(path).parents for f in folders)
