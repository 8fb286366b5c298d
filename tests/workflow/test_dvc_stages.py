"""dvc.yaml names all that its stages' nodes read: what it leaves out, DVC would not see change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pretended
import pytest
import yaml
from project import ROOT

from bgbias.engine import graph
from bgbias.engine.node import Node
from bgbias.study import params

TEXT = (ROOT / "dvc.yaml").read_text(encoding="utf-8")
OPENING = (yaml.FlowMappingStartToken, yaml.FlowSequenceStartToken)
CLOSING = (yaml.FlowMappingEndToken, yaml.FlowSequenceEndToken)
SETTINGS = ["params.yaml", *(f"grids/{path.name}" for path in (ROOT / "grids").glob("*.yaml"))]


@pytest.mark.parametrize("name", ["dvc.yaml", *SETTINGS])
def test_every_dvc_can_read_it(name: str) -> None:
    """That of conda has a fast parser, which refuses plain words with a colon inside braces or brackets."""
    depth = 0
    for token in yaml.scan((ROOT / name).read_text(encoding="utf-8")):
        depth += isinstance(token, OPENING) - isinstance(token, CLOSING)
        refused = depth and isinstance(token, yaml.ScalarToken) and token.plain and ":" in token.value
        assert not refused, f"{name} line {token.start_mark.line + 1}: {token.value}"


def outputs(stage: dict[str, Any]) -> list[str]:
    entries = [entry for kind in ("outs", "metrics", "plots") for entry in stage.get(kind, [])]
    assert all(next(iter(entry.values()))["persist"] for entry in entries)
    return [next(iter(entry)) for entry in entries]


def is_below(path: Path, folders: list[str]) -> bool:
    return not {path, *path.parents}.isdisjoint(map(Path, folders))


@pytest.mark.parametrize(
    ("grid", "left"),
    [("negatives", ["table10", "table5"]), ("controls", [f"table{n}" for n in (10, 5, 6, 7, 8)])],
)
def test_a_stage_keeps_what_its_nodes_make_and_depends_on_what_they_read(
    grid: str, left: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for tables from the fourth on, which only some grids have: they are made again with the report."""
    monkeypatch.chdir(ROOT)
    study = params.load(ROOT / "params.yaml", grid)
    text = TEXT.replace("${grid}", grid)
    for root in ("work", "runs", "report"):
        text = text.replace(f"${{paths.{root}}}", getattr(study.paths, root))
    stages = yaml.load(text, yaml.CSafeLoader)["stages"]
    outs = {name: outputs(stage) for name, stage in stages.items()}

    def stage_of(node: Node) -> str:
        return next((name for name in stages if is_below(node.record(study), outs[name])), "")

    nodes = [node for node in graph.in_order(study) if node.name not in ("fetch", "weights")]
    assert sorted(node.subject_name for node in nodes if not stage_of(node)) == left
    for node in filter(stage_of, nodes):
        stage = stage_of(node)
        assert all(is_below(path, outs[stage]) for path in pretended.outputs(study, node)), node.label
        known = [*stages[stage]["deps"], *outs[stage], study.paths.raw]
        for maker in graph.reads_from(study, node):
            if maker.subject_name not in left:
                # Its record has the checksums of what it certifies.
                assert is_below(maker.record(study), known), (node.label, maker.label)


def test_every_stage_depends_on_all_settings_and_code_and_gives_a_shell_nothing_of_params() -> None:
    """DVC fills names in before anybody checks them, and a shell runs what it is given."""
    stages = yaml.safe_load(TEXT)["stages"]
    assert stages.keys() >= {"data", "models", "table1", "report"}
    for stage in stages.values():
        assert {"src/bgbias", "requirements.lock", "params.yaml", "grids"} <= set(stage["deps"])
        assert "$" not in stage["cmd"]
