"""What MLflow shows through a real server, also when it goes away for a while, and with PostgreSQL below it."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from handmade_records import MODEL, SCORE, TRAIN, Project, chain
from mlflow_servers import free_port, mlflow_server, postgresql
from project import PATIENCE

from bgbias.tracking import watch

pytestmark = pytest.mark.slow


def runs(uri: str) -> dict[str, Any]:
    from mlflow import MlflowClient

    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name("bgbias-demo")
    return {r.info.run_name: r for r in client.search_runs([experiment.experiment_id])} if experiment else {}


def curve(uri: str) -> list[tuple[int, float]]:
    from mlflow import MlflowClient

    found = runs(uri).get(TRAIN)
    points = MlflowClient(uri).get_metric_history(found.info.run_id, "epoch/loss") if found else []
    return [(p.step, p.value) for p in points]


def wait_until(condition: Callable[[], Any], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.2)


def test_a_server_that_goes_away_during_a_run_is_caught_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(watch, "LONGEST_PAUSE", 1.0)
    project, port = Project(tmp_path), free_port()
    store = f"sqlite:///{tmp_path / 'server.db'}"
    workflow = subprocess.Popen(["sleep", "36000"])
    project.history(2)
    working = project.training(status="running", pid=os.getpid())
    with ExitStack() as servers, caplog.at_level(logging.WARNING, "bgbias.tracking"):
        uri = servers.enter_context(mlflow_server(tmp_path, store, port))
        mirror = threading.Thread(
            target=watch.follow, args=([project.data], uri, "demo", workflow.pid, 0.1), daemon=True
        )
        mirror.start()
        try:
            wait_until(lambda: len(curve(uri)) == 2, "the first two epochs")
            servers.close()
            project.history(5)
            wait_until(lambda: "nobody answers there" in caplog.text, "the warning")
            project.history(7)
            servers.enter_context(mlflow_server(tmp_path, store, port))
            wait_until(lambda: len(curve(uri)) == 7, "the epochs that the server did not see")
            assert len(runs(uri)) == 2
            working.unlink()
            project.training(metrics={"best_val_map_at_r": 0.44})
        finally:
            workflow.kill()
            workflow.wait()
            mirror.join(timeout=PATIENCE)
        assert curve(uri) == [(e, pytest.approx(1 / e, abs=1e-4)) for e in range(1, 8)]
        assert runs(uri)[TRAIN].info.status == "FINISHED"
    assert caplog.text.count("did not take the records") == 1


def test_a_server_on_postgresql_takes_what_four_machines_write_at_once(tmp_path: Path) -> None:
    with postgresql() as store:
        project = Project(tmp_path)
        chain(project)
        picture = project.data / "report/demo/figures/drop.png"
        picture.parent.mkdir(parents=True)
        picture.write_bytes(b"picture")
        project.record("report/demo/figures/drop.json", "figure", "drop", outputs={str(picture): "3" * 64})
        with mlflow_server(tmp_path, store, free_port()) as uri:
            project.history(60)
            code = f"""
import sys; from pathlib import Path; from bgbias.tracking import watch
print(watch.sync([Path({str(project.data)!r})], {uri!r}, "demo"))
"""
            environment = {"PYTHONPATH": os.pathsep.join(sys.path)}
            # Each with a folder for locks of its own, as on machines that know nothing of one another.
            folders = [tmp_path / f"machine{number}" for number in range(4)]
            for folder in folders:
                folder.mkdir()
            machines = [
                subprocess.Popen(
                    [sys.executable, "-c", code], env=os.environ | environment | {"TMPDIR": str(folder)}
                )
                for folder in folders
            ]
            assert [machine.wait(timeout=PATIENCE) for machine in machines] == [0] * 4
            # What two made twice, a last look puts right.
            project.sync_to(uri)
            assert project.sync_to(uri) == (0, 0, 7)
            found = runs(uri)
            assert {TRAIN, SCORE, MODEL, "figure drop"} <= set(found)
            assert len(found) == 7
            assert len(curve(uri)) == 60
            assert found[MODEL].data.metrics["Drop percent"] == 25
        # Those of runs that were made twice and deleted are among them.
        assert {shown.read_bytes() for shown in (tmp_path / "artifacts").rglob("drop.png")} == {b"picture"}
