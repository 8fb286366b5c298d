"""Records and histories as entries: what is read, what is skipped, what a dead node looks like."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest
from handmade_records import MODEL, NAME, TRAIN, Project

from bgbias.compute import vitals
from bgbias.tracking.records import Records


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_damaged_records_are_named_and_skipped(project: Project, caplog: pytest.LogCaptureFixture) -> None:
    half = project.training()
    half.write_text(half.read_text()[:100])
    bare = project.data / "bare.json"
    bare.write_text('{"node": "train", "status": "done"}')
    (project.data / "other.json").write_text('{"kind": "not a record"}')
    (project.data / "list.json").write_text("[[1, 2, 3]]")
    (project.data / ".unfinished").mkdir()
    (project.data / ".unfinished/half.json").write_text("{")
    (project.data / ".run.json").write_text("{")
    found = Records([project.data], "demo")
    with caplog.at_level(logging.WARNING):
        assert found.entries() == {}
        assert found.entries() == {}
    assert set(found.unreadable) == {half, bare}
    assert [str(half) in r.getMessage() or str(bare) in r.getMessage() for r in caplog.records] == [
        True,
        True,
    ]
    project.training()
    assert [entry.name for entry in found.entries().values()] == [TRAIN, MODEL]
    assert set(found.unreadable) == {bare}


def test_records_of_another_grid_are_left_alone(project: Project) -> None:
    project.training(grid="paper")
    project.record("work/datasets/toy_090/index.json", "index", "toy_090", grid="")
    assert list(Records([project.data], "demo").entries()) == ["shared/index/toy_090"]


def test_a_node_killed_without_a_word_does_not_run_for_ever(project: Project) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    project.training(status="running", pid=dead.pid)
    entry = Records([project.data], "demo").entries()[f"demo/train/{NAME}"]
    assert entry.status == "KILLED"
    project.training(status="running", pid=dead.pid, host="another machine")
    entry = Records([project.data], "demo").entries()[f"demo/train/{NAME}"]
    assert entry.status == "RUNNING"


def test_curves_have_at_most_200_points() -> None:
    assert all(map(vitals.shown, range(100)))
    assert sum(map(vitals.shown, range(1, 1001))) == 181
