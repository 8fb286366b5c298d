"""A database beside the project, written row by row, holds what MLflow's own client would have written."""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from handmade_records import NAME, SCORE, TRAIN, Project, chain

from bgbias.tracking import rows, store

TABLES = [*rows.COLUMNS, "experiments", "experiment_tags"]
# What MLflow makes up anew each time.
RANDOM = re.compile(r"[0-9a-f]{32}|file://.*|/.*/mlartifacts")


def written(project: Project) -> dict[str, list[tuple[Any, ...]]]:
    """All rows of a database; what was made up is called by the order in which it appears."""
    tables: dict[str, list[tuple[Any, ...]]] = {}
    with closing(sqlite3.connect(project.root / "mlflow.db")) as database:
        names = dict(database.execute("SELECT run_uuid, name || lifecycle_stage || start_time FROM runs"))
        names |= dict(database.execute("SELECT dataset_uuid, name FROM datasets"))
        edges = "SELECT input_uuid, source_id, destination_id FROM inputs"
        names |= {edge: names[a] + names[b] for edge, a, b in database.execute(edges)}
        for table in TABLES:
            columns = ", ".join(rows.COLUMNS.get(table, "*").split())
            times = {"creation_time", "last_update_time", "deleted_time"}
            asked = database.execute(f"SELECT {columns} FROM {table}")
            kept = [n for n, column in enumerate(asked.description) if column[0] not in times]
            found = [[names.get(row[n], row[n]) for n in kept] for row in asked]
            clean = [tuple(RANDOM.sub("", v) if isinstance(v, str) else v for v in row) for row in found]
            tables[table] = sorted(clean, key=repr)
    return tables


def a_life(project: Project) -> None:
    """Nodes at work, failed, mended, finished, begun anew and made with other settings."""
    running = {"status": "running", "pid": os.getpid()}
    project.history(2)
    work = project.training(**running)
    project.sync()
    project.history(130)
    project.sync()
    work.unlink()
    path = f"runs/demo/scores/{NAME}/score.json"
    project.record(path, "score", NAME, status="failed", error="RuntimeError: no")
    project.sync()
    chain(project)
    project.sync()
    project.record(path, "score", NAME, metrics={"a": float("nan"), "b": float("inf"), "c": -1e300})
    project.sync()
    project.record(path, "score", NAME, spec={"draws": 2}, metrics={"a": 0.5})
    project.sync()
    project.history(2, loss=3.0)
    project.training(**running, started="2025-06-01T13:00:00+00:00")
    project.sync()


def test_all_rows_are_those_that_mlflows_client_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = Project(tmp_path / "project")
    a_life(project)
    made = written(project)
    project.root.rename(tmp_path / "before")
    monkeypatch.setattr(rows, "connected", lambda database: None)
    a_life(project)
    expected = written(project)
    for table in TABLES:
        assert [len(made[table]), table] == [len(expected[table]), table]
        assert made[table] == expected[table]
        assert made[table]


def test_each_finds_what_the_other_wrote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = Project(tmp_path)
    chain(project)
    project.sync()
    connect: Callable[[Path], Any] = rows.connected
    monkeypatch.setattr(rows, "connected", lambda database: None)
    assert project.sync()[:2] == (0, 0)
    project.history(5)
    assert project.sync()[:2] == (0, 2)  # the training, and its model with the same curve
    monkeypatch.setattr(rows, "connected", connect)
    assert project.sync()[:2] == (0, 0)


def test_a_database_with_other_tables_is_left_to_mlflows_client(tmp_path: Path) -> None:
    project = Project(tmp_path)
    chain(project)
    project.sync()
    database = tmp_path / "mlflow.db"
    with closing(sqlite3.connect(database)) as changed, changed:
        assert rows.connected(database) is not None
        changed.execute("ALTER TABLE tags ADD COLUMN kind VARCHAR(20)")
    assert rows.connected(database) is None
    project.history(4)
    assert project.sync()[:2] == (0, 2)  # the training, and its model with the same curve
    assert len(project.curve(project.runs()[TRAIN], "epoch/loss")) == 4


def test_runs_of_other_experiments_and_deleted_ones_are_not_found(tmp_path: Path) -> None:
    project = Project(tmp_path)
    chain(project)
    project.sync()
    score = project.runs()[SCORE]
    with store.experiment(project.uri, "another") as experiment:
        assert not list(experiment._store.find(store.KEY, [score.data.tags[store.KEY]]))
    with store.experiment(project.uri, "demo") as experiment:
        (found,) = experiment._store.find(store.KEY, [score.data.tags[store.KEY]])
        assert (found.info.run_id, found.data.tags) == (score.info.run_id, score.data.tags)
        assert (found.data.params, found.data.metrics) == (score.data.params, score.data.metrics)
        experiment.client.delete_run(score.info.run_id)
        assert not list(experiment._store.find(store.KEY, [score.data.tags[store.KEY]]))


def test_what_ships_with_a_model_is_found_without_importing_torch(tmp_path: Path) -> None:
    code = "import sys\nfrom bgbias.tracking import registry\n"
    code += "assert registry._spec('bgbias.models.backbones.tiny').origin.endswith('tiny.py')\n"
    code += "assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)
