"""What is remembered of nodes while a grid is planned is what they say, and ends with the planning."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import small_study
from small_study import described

from benchmarks import _project
from bgbias.engine import freshness, graph
from bgbias.engine.node import Node, step
from bgbias.study.cell import Cell
from bgbias.study.params import Study, load


def all_that_planning_asks(study: Study) -> dict[Node, Any]:
    freshness.examine(study)
    return {
        n: (
            graph.reads_from(study, n),
            graph.inputs(study, n.name, **n.keywords),
            graph.digest(study, n.name, **n.keywords),
        )
        for n in graph.in_order(study)
    }


def test_nothing_is_remembered_of_another_study_once_the_planning_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    study = load(_project.write_smallest(tmp_path, 3))
    with graph.share_lookups() as memory:
        before = all_that_planning_asks(study)
    # A later block may go on with it, as rules' functions do that are called one by one.
    with graph.share_lookups(memory):
        assert all_that_planning_asks(study) == before
    assert all_that_planning_asks(study) == before
    other = load(_project.write_smallest(tmp_path, 2))
    assert graph._memory is None
    assert len(graph.in_order(other)) == len(before) - 2 * 4
    edited = study.model_copy(update={"train": study.train.model_copy(update={"lr": 0.5})})
    cell = graph.in_order(edited)[-1]
    assert graph.digest(edited, cell.name, **cell.keywords) not in {digest for *_, digest in before.values()}


@pytest.mark.parametrize(("kind", "between"), [("squares", []), ("cub200", ["fetch squares/photos"])])
@pytest.mark.usefixtures("small_plugins")
def test_segmentation_reads_where_the_objects_are_from_masks_or_the_boxes_of_an_archive(
    tmp_path: Path, kind: str, between: list[str]
) -> None:
    raw = described(tmp_path)
    raw["segmentation"] = {"episodes": 6}
    options = {"options": {"source": "birds.zip"}} if kind == "cub200" else {}
    raw["datasets"]["squares"] |= {"kind": kind, **options}
    study = small_study.load(tmp_path, raw)
    cell = Cell("squares", "pixels", "contrastive", "plain", 0)
    pattern, part = ("part", {"part": "photos"}) if between else ("truth", {})
    file = study.files.at(pattern, dataset="squares", **part)
    for node, before in (
        (step("segment", cell=cell), f"train {cell.name}"),
        (step("figure", figure="segmentation"), f"segment {cell.name}"),
    ):
        read = [n.label for n in graph.reads_from(study, node)]
        assert read[: 2 + len(between)] == ["index squares", *between, before]
        assert file in graph.inputs(study, node.name, **node.keywords).values()
