"""Records and histories as entries: what is read, what is skipped, what a dead node looks like."""

from __future__ import annotations

import json
import logging
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from handmade_records import MODEL, NAME, TRAIN, Project, chain

from bgbias.compute import vitals
from bgbias.files.atomic import write_json
from bgbias.tracking import folders, records
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


def test_a_look_at_what_did_not_change_gives_the_same_objects_and_opens_no_record(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain(project)
    found = Records([project.data], "demo", project.root)
    project.history(2)
    working = {"status": "running", "pid": os.getpid(), "vitals_file": str(project.data / "vitals.csv")}
    project.record("work/running/score.json", "score", "another", **working)
    settled(project)
    first = found.recent()
    read: list[Path] = []
    monkeypatch.setattr(
        records.sealed, "read", lambda path: read.append(path) or json.loads(path.read_text())
    )
    assert found.recent() is first
    assert not read

    # A new record is one more; what was there is what it was.
    project.record(f"runs/demo/scores/{NAME}/segment.json", "segment", NAME, spec={"train": "f" * 16})
    second = found.recent()
    assert second.keys() - first.keys() == {f"demo/segment/{NAME}"}
    assert [p.name for p in read] == ["segment.json"]
    assert all(second[key] is entry for key, entry in first.items() if entry.node != "cell")

    # Samples of a node at work make its entry another one, and no other's.
    (project.data / "vitals.csv").write_text("elapsed_seconds\n1.0\n")
    third = found.recent()
    assert [k for k, entry in third.items() if second.get(k) is not entry] == ["demo/score/another"]
    (project.data / "work/running/score.json").unlink()
    assert "demo/score/another" not in found.recent()
    assert [p.name for p in read] == ["segment.json"]


def test_an_edit_in_place_is_seen_when_all_records_are_looked_at(project: Project) -> None:
    record = project.training()
    found = Records([project.data], "demo", project.root)
    settled(project)
    assert found.recent()[f"demo/train/{NAME}"].status == "FINISHED"
    record.write_text(record.read_text().replace('"done"', '"failed"'))
    assert found.recent()[f"demo/train/{NAME}"].status == "FINISHED"
    looks = [found.recent()[f"demo/train/{NAME}"].status for _ in range(records.LOOKS)]
    assert looks[-1] == "FAILED"
    record.write_text(record.read_text().replace('"failed"', '"done"'))
    assert found.entries()[f"demo/train/{NAME}"].status == "FINISHED"


def test_looks_at_changed_folders_alone_find_what_a_look_at_everything_finds(project: Project) -> None:
    chain(project)
    watched = Records([project.data], "demo", project.root)
    watched.recent()
    generator = random.Random(0)
    places = sorted(project.data.rglob("*.json"))
    for step in range(60):
        path = generator.choice(places)
        if path.exists() and generator.random() < 0.4:
            path.unlink()
        elif path.exists():
            changed = json.loads(path.read_text()) | {"digest": f"{step:016x}", "metrics": {"step": step}}
            write_json(path, changed)
        else:
            node = "train" if path.stem == "run" else path.stem
            subject = NAME if NAME in str(path) else "toy_090"
            project.record(str(path.relative_to(project.data)), node, subject, metrics={"again": step})
        if generator.random() < 0.2:
            settled(project)
        assert watched.recent() == Records([project.data], "demo", project.root).entries()


def settled(project: Project) -> None:
    """As if nothing had been written for a while."""
    for folder in [project.data, *(p for p in project.data.rglob("*") if p.is_dir())]:
        os.utime(folder, ns=(0, folder.stat().st_mtime_ns - folders.SETTLED))
