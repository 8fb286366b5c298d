"""Real servers for the tests of what MLflow shows: ``mlflow server``, and a PostgreSQL of one's own below it."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from project import PATIENCE, wait_for

from bgbias.tracking import ui

PROGRAMS = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))


def free_port() -> int:
    """A port of the loopback on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def mlflow_server(folder: Path, store: str, port: int) -> Iterator[str]:
    """``mlflow server`` on a store, answering while the block lasts; its address."""
    words = ["server", "--backend-store-uri", store, "--artifacts-destination", str(folder / "artifacts")]
    words += ["--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    environment = os.environ | {"MLFLOW_DISABLE_TELEMETRY": "true"}
    with (folder / "server.log").open("a") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "mlflow", *words], cwd=folder, env=environment, stdout=log, stderr=log
        )
    try:
        wait_for(lambda: server.poll() is not None or ui._answers(port), "mlflow server")
        assert server.poll() is None, (folder / "server.log").read_text()[-3000:]
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(timeout=PATIENCE)  # its own workers end first, slowly on a busy machine


@contextmanager
def postgresql() -> Iterator[str]:
    """A fresh PostgreSQL with an empty database; its address for MLflow. Skips where none can be started."""
    pytest.importorskip("psycopg2", reason="MLflow's way to PostgreSQL is missing: make cluster")
    if not PROGRAMS:
        pytest.skip("no PostgreSQL here: apt-get install postgresql")
    programs, port = PROGRAMS[-1].parent, free_port()
    # Not below pytest's own folder, which every new session closes to other users.
    data = Path(tempfile.mkdtemp(prefix="bgbias-postgresql-"))
    # PostgreSQL refuses to run as root; its package brings a user.
    user = "postgres" if os.getuid() == 0 else None
    if user:
        shutil.chown(data, user)

    def run(program: str, *words: str) -> None:
        command: list[str | Path] = [programs / program, *words]
        made = subprocess.run(command, user=user, cwd="/", capture_output=True, text=True, check=False)
        assert made.returncode == 0, f"{program}: {made.stdout}{made.stderr}"

    run("initdb", "--pgdata", str(data), "--auth", "trust", "--username", "bgbias", "--no-sync")
    settings = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c fsync=off"
    run("pg_ctl", "--pgdata", str(data), "--wait", "--log", str(data / "log"), "-o", settings, "start")
    try:
        run("createdb", "--host", "127.0.0.1", "--port", str(port), "--username", "bgbias", "mlflow")
        yield f"postgresql://bgbias@127.0.0.1:{port}/mlflow"
    finally:
        run("pg_ctl", "--pgdata", str(data), "--mode", "immediate", "stop")
        shutil.rmtree(data)
