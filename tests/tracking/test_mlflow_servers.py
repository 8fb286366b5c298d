"""What MLflow shows through a real server: its pages in a browser, ``bgbias ui``, and PostgreSQL below it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path

import chromium
import pytest
from handmade_records import MODEL, SCORE, TRAIN, Project, chain
from mlflow_servers import free_port, mlflow_server, postgresql
from project import PATIENCE, hear_interrupts

from bgbias.errors import UserError
from bgbias.tracking import entries, store, ui


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path)
    chain(made)
    return made


@pytest.mark.slow
@pytest.mark.skipif(chromium.PROGRAM is None, reason="no Chromium here: apt-get install chromium")
def test_tables_and_charts_are_there_at_once(project: Project) -> None:
    project.sync()
    with store.experiment(project.uri, "demo") as found:
        experiment = found.identity
    with mlflow_server(project.root, project.uri, free_port()) as server, chromium.browsing() as page:

        def open_view(view: str) -> None:
            page.open(f"{server}/{entries.page(experiment, view)}", 1600, 1200)

        open_view("cell")
        page.wait_for_text(f"Group: {MODEL[:20]}", "seed 0", "MAP at R clean", "MAP at R corrupted")
        assert "45" in page.text
        assert TRAIN not in page.text
        open_view("compare")
        page.wait_for_text("Clean and corrupted (4)", "MAP at R clean vs. MAP at R corrupted", "Drop percent")
        page.wait_for(
            "document.querySelectorAll('.plotly .scatterlayer .points path, .plotly .barlayer path').length"
        )
        open_view("train")
        page.wait_for_text(MODEL[:20], "Training curves (3)", "epoch/loss", "epoch/validation MAP at R")
        page.wait_for("document.querySelectorAll('.plotly .scatterlayer .lines path').length")
        assert page.errors == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("end", "status"),
    [
        pytest.param(lambda pid: os.killpg(pid, signal.SIGINT), 0, id="Ctrl-C in a terminal"),
        pytest.param(lambda pid: os.kill(pid, signal.SIGTERM), 128 + signal.SIGTERM, id="kill"),
    ],
)
def test_the_address_comes_when_the_server_answers_and_it_ends_with_the_command(
    project: Project, end: Callable[[int], None], status: int
) -> None:
    project.sync()
    port, log = free_port(), project.root / "said"
    words = [sys.executable, "-m", "bgbias", "ui", "demo", "--port", str(port), "--uri", project.uri]
    with log.open("w") as said:
        command = subprocess.Popen(
            words,
            cwd=project.root,
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
            start_new_session=True,
            preexec_fn=hear_interrupts,
        )
    try:
        assert command.stdout is not None
        address = next(line for line in command.stdout if line.startswith("open ")).split()[1]
        assert address.startswith(f"http://127.0.0.1:{port}/#/experiments/")
        with urllib.request.urlopen(address, timeout=PATIENCE) as page:
            assert b"MLflow" in page.read()
        end(command.pid)
        assert command.wait(timeout=PATIENCE) == status
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", port)) != 0
        assert "bgbias:" not in log.read_text()
    finally:
        if command.poll() is None:
            os.killpg(command.pid, signal.SIGKILL)
            command.wait()


@pytest.mark.slow
def test_a_server_that_ends_by_itself_is_told_and_no_address_is(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UserError, match=r"MLflow's server has ended \(exit status 1\)\. Put right"):
        ui.serve("nothing://here", free_port(), "http://here")
    assert "open" not in capfd.readouterr().out.split()


def test_a_port_that_is_taken_is_told_before_a_server_begins() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=f"Port {port} is in use; name another one: bgbias ui --port"):
            ui.check_free(port)


@pytest.mark.slow
def test_a_server_on_postgresql_takes_what_four_machines_write_at_once(project: Project) -> None:
    from mlflow import MlflowClient

    with postgresql() as address:
        picture = project.data / "report/demo/figures/drop.png"
        picture.parent.mkdir(parents=True)
        picture.write_bytes(b"picture")
        project.record("report/demo/figures/drop.json", "figure", "drop", outputs={str(picture): "3" * 64})
        with mlflow_server(project.root, address, free_port()) as uri:
            project.history(60)
            code = f"""
import sys; from pathlib import Path; from bgbias.tracking import watch
print(watch.sync([Path({str(project.data)!r})], {uri!r}, "demo"))
"""
            environment = {"PYTHONPATH": os.pathsep.join(sys.path)}
            # Each with a folder for locks of its own, as on machines that know nothing of one another.
            folders = [project.root / f"machine{number}" for number in range(4)]
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
            client = MlflowClient(uri)
            experiment = client.get_experiment_by_name("bgbias-demo")
            assert experiment
            found = {r.info.run_name: r for r in client.search_runs([experiment.experiment_id])}
            assert {TRAIN, SCORE, MODEL, "figure drop"} <= set(found)
            assert len(found) == 7
            assert len(client.get_metric_history(found[TRAIN].info.run_id, "epoch/loss")) == 60
            assert found[MODEL].data.metrics["Drop percent"] == 25
        # Those of runs that were made twice and deleted are among them.
        assert {shown.read_bytes() for shown in (project.root / "artifacts").rglob("drop.png")} == {
            b"picture"
        }
