"""A store that does not take the records is told in one line that says what is wrong there, and what to do."""

from __future__ import annotations

import sqlite3
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from pathlib import Path

import pytest
from handmade_records import Project
from web import serving

from bgbias.errors import UserError
from bgbias.tracking import store_errors, watch


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


@pytest.mark.parametrize(
    "uri", ["mlruns", "./mlruns", "file:///tmp/mlruns", "nonsense://x", "localhost:5000"]
)
def test_what_is_no_address_is_refused_and_makes_nothing(
    project: Project, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project.root)
    assert "is no address of an MLflow store. Give --uri" in fault(project, uri)
    assert sorted(p.name for p in project.root.iterdir()) == ["data"]


def test_sqlite_with_two_slashes_is_refused(project: Project) -> None:
    assert "three slashes" in fault(project, "sqlite://mlflow.db")


def test_a_server_that_is_not_there(project: Project) -> None:
    assert "nobody answers there; is the server running" in fault(project, "http://127.0.0.1:9")


def test_a_server_of_something_else(project: Project) -> None:
    with serving(b"hello") as web:
        assert "what answers there is no MLflow server" in fault(project, web.root)


def test_a_server_of_another_version(project: Project) -> None:
    class Old(BaseHTTPRequestHandler):
        """Knows its version, and none of the questions that this MLflow asks."""

        def do_GET(self) -> None:
            if self.path != "/version":
                return self.send_error(404)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"1.30.0")

        def log_message(self, *words: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Old) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        said = fault(project, f"http://127.0.0.1:{server.server_port}")
        server.shutdown()
    assert f"the server runs MLflow 1.30.0, this is MLflow {version('mlflow')}" in said


@pytest.mark.parametrize(
    ("revision", "said", "advised"),
    [
        ("ffffffffffff", "it is of a newer MLflow than this one", ""),
        ("451aebb31d03", "it is of an older MLflow than this one", "mlflow db upgrade {uri}"),
    ],
)
def test_a_database_of_another_mlflow(project: Project, revision: str, said: str, advised: str) -> None:
    project.sync()
    with sqlite3.connect(project.root / "mlflow.db") as database:
        database.execute("UPDATE alembic_version SET version_num = ?", (revision,))
    # Another process would open it anew; this one knows it under its old address.
    moved = project.root / "moved.db"
    (project.root / "mlflow.db").rename(moved)
    uri = f"sqlite:///{moved}"
    found = fault(project, uri)
    assert f"{said} (MLflow {version('mlflow')})" in found
    assert advised.format(uri=uri) in found


def test_passwords_are_not_told(project: Project) -> None:
    said = str(store_errors.fault("postgresql://me:secret@host/db", OSError("refused")))
    assert "secret" not in said
    assert "postgresql://me:***@host/db" in said
