"""dvc.yaml names all that its stages' nodes read: what it leaves out, DVC would not see change."""

from __future__ import annotations

from pathlib import Path

import pretended
import pytest
import yaml
from project import ROOT

from bgbias.engine import graph
from bgbias.engine.node import Node
from bgbias.study import params
from bgbias.study.params import Study

GRIDS = ("negatives", "cub50")
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


SETTINGS = ["params.yaml", *(f"grids/{path.name}" for path in (ROOT / "grids").glob("*.yaml"))]


@pytest.mark.parametrize("name", ["dvc.yaml", *SETTINGS])
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
        for maker in graph.reads_from(study, node):
            if not _made_with_the_report(stages, maker):
                # Which has the checksums of what it certifies.
                assert _below(str(maker.record(study)), known), (node.label, maker.label)


def _made_with_the_report(stages: Stages, node: Node) -> bool:
    """A table that only some grids have."""
    return node.name == "table" and not stages.of(node)


def test_every_stage_depends_on_all_settings_and_all_code(stages: Stages) -> None:
    described = yaml.safe_load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))
    for stage in described["stages"]:
        assert {"src/bgbias", "requirements.lock", "params.yaml", "grids"} <= set(stages.deps(stage))


def test_nothing_of_params_reaches_a_shell() -> None:
    """DVC fills names in before anybody checks them, and a shell runs what it is given."""
    stages = yaml.safe_load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))["stages"]
    assert stages.keys() >= {"data", "models", "table1", "report"}
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
        others = [n.subject_name for n in kept_by_none if n.name not in ("fetch", "weights")]
        assert sorted(others) == tables


def _below(path: str, folders: list[str]) -> bool:
    return any(Path(path) == Path(f) or Path(f) in Path(path).parents for f in folders)
