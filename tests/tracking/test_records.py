"""Records and histories as entries: what is read, what is skipped, what a dead node looks like."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
from handmade_records import MODEL, NAME, TRAIN, Project, chain

from bgbias.compute import vitals
from bgbias.tracking import watch
from bgbias.tracking.entries import Entry
from bgbias.tracking.watch import Records


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
    assert [record.args[0] for record in caplog.records if record.args] == [bare, half]
    # An edit in place is seen.
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


def test_a_look_at_what_did_not_change_gives_the_same_and_opens_no_finished_record(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain(project)
    found = Records([project.data], "demo")
    project.history(2)
    working = {"status": "running", "pid": os.getpid(), "history": str(project.data / "epochs.csv")}
    project.record("work/running/score.json", "score", "another", **working)
    first = found.entries()
    read: list[Path] = []

    def read_record(path: Path) -> object:
        if "running" not in path.parts:
            read.append(path)
        return json.loads(path.read_text())

    monkeypatch.setattr(watch.json_checksum, "read", read_record)
    assert found.entries() == first
    assert not read

    # A new record is one more; what was there is what it was.
    project.record(f"runs/demo/scores/{NAME}/segment.json", "segment", NAME, spec={"train": "f" * 16})
    second = found.entries()
    assert second.keys() - first.keys() == {f"demo/segment/{NAME}"}
    assert [p.name for p in read] == ["segment.json"]
    assert all(second[key] == entry for key, entry in first.items() if entry.node != "cell")

    # Epochs of a node at work make its entry another one, and no other's.
    (project.data / "epochs.csv").write_text("epoch,loss\n1,0.5\n")
    third = found.entries()
    assert [k for k, entry in third.items() if second.get(k) != entry] == ["demo/score/another"]
    (project.data / "work/running/score.json").unlink()
    assert "demo/score/another" not in found.entries()
    assert [p.name for p in read] == ["segment.json"]


def test_epochs_lie_as_far_apart_as_they_took_and_of_1000_are_181_points() -> None:
    assert [n for n in range(1, 1001) if vitals.is_plotted(n)][98:101] == [99, 100, 104]
    assert sum(map(vitals.is_plotted, range(1, 1001))) == 181
    entry = Entry(
        *("key", "train", "digest", "name", "FINISHED", 1000, None, {}, {}, {}, {}),
        history="epoch,loss,train_seconds,validate_seconds\n1,0.5,2.0,1.0\n2,0.4,3.0,1.0\n",
    )
    assert {(point.step, point.time) for point in entry.epochs()} == {(1, 4000), (2, 8000)}
