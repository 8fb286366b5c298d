"""A store that does not take the records is told in one line that says what is wrong there, and what to do."""

from __future__ import annotations

import sqlite3
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from handmade_records import Project

from bgbias.errors import UserError
from bgbias.tracking import store, watch


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path)
    made.training()
    return made


def fault(project: Project, uri: str) -> str:
    with pytest.raises(UserError) as caught:
        watch.sync([project.data], uri, "demo")
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("uri", ["./mlruns", "file:///tmp/mlruns", "localhost:5000", "sqlite://mlflow.db"])
def test_what_is_no_address_is_refused_and_makes_nothing(
    project: Project, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project.root)
    assert "is no address of an MLflow store. Give --uri" in fault(project, uri)
    assert sorted(p.name for p in project.root.iterdir()) == ["data"]


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (200, "what answers there is no MLflow server, or one of another version"),
        (401, "the server asks for a login; set MLFLOW_TRACKING_USERNAME"),
    ],
)
def test_a_server_of_something_else_or_that_asks_for_a_login(
    project: Project, status: int, said: str
) -> None:
    class Other(BaseHTTPRequestHandler):
        """Answers whatever it is asked in the same way."""

        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(b"hello")

        def log_message(self, *words: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Other) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        found = fault(project, f"http://127.0.0.1:{server.server_port}")
        server.shutdown()
    assert said in found


def test_a_database_of_another_mlflow(project: Project) -> None:
    project.sync()
    with sqlite3.connect(project.root / "mlflow.db") as database:
        database.execute("UPDATE alembic_version SET version_num = 'ffffffffffff'")
    # Another process would open it anew; this one knows it under its old address.
    moved = project.root / "moved.db"
    (project.root / "mlflow.db").rename(moved)
    assert "then run 'mlflow db upgrade <database_uri>'" in fault(project, f"sqlite:///{moved}")


def test_neither_passwords_nor_traces_are_told() -> None:
    said = str(store._fault("postgresql://me:secret@host/db", OSError("refused")))
    assert "secret" not in said
    assert "postgresql://me:***@host/db" in said
    said = str(store._fault("sqlite:///mlflow.db", ImportError("no MLflow here")))
    assert "MLflow cannot be imported (no MLflow here); `make setup` installs it" in said
