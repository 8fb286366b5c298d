"""``bgbias ui`` prints an address behind which MLflow answers already, and leaves nothing behind when it ends."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from handmade_records import Project, chain
from mlflow_servers import free_port
from project import PATIENCE, hear_interrupts

from bgbias.errors import UserError
from bgbias.tracking import ui


@pytest.mark.slow
@pytest.mark.parametrize(
    ("end", "status"),
    [
        pytest.param(lambda pid: os.killpg(pid, signal.SIGINT), 0, id="Ctrl-C in a terminal"),
        pytest.param(lambda pid: os.kill(pid, signal.SIGTERM), 128 + signal.SIGTERM, id="kill"),
    ],
)
def test_the_address_comes_when_the_server_answers_and_it_ends_with_the_command(
    tmp_path: Path, end: Callable[[int], None], status: int
) -> None:
    project, port = Project(tmp_path), free_port()
    chain(project)
    project.sync()
    words = [sys.executable, "-m", "bgbias", "ui", "demo", "--port", str(port), "--uri", project.uri]
    with (tmp_path / "said").open("w") as said:
        command = subprocess.Popen(
            words,
            cwd=tmp_path,
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
        assert "\nMLflow starts, " in (tmp_path / "said").read_text()
        end(command.pid)
        assert command.wait(timeout=PATIENCE) == status
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", port)) != 0
        assert "bgbias:" not in (tmp_path / "said").read_text()
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
