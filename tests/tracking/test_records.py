"""Records and histories as entries, and stores that do not take them: what is read, what is skipped, and what is told."""

from __future__ import annotations

import json
import logging
import os
import platform
import sqlite3
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from handmade_records import MODEL, NAME, TRAIN, Project, chain

from bgbias.compute import vitals
from bgbias.errors import UserError
from bgbias.tracking import store, watch
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
    found = Records([project.data], "demo")
    with caplog.at_level(logging.WARNING):
        assert found.entries() == found.entries() == {}
    assert found.unreadable == {half, bare}
    assert [record.args[0] for record in caplog.records if record.args] == [bare, half]
    # An edit in place is seen; records of another grid are left alone.
    project.training()
    project.record("another.json", "index", "toy_090", grid="paper")
    assert [entry.name for entry in found.entries().values()] == [TRAIN, MODEL]
    assert found.unreadable == {bare}


def test_a_node_killed_without_a_word_does_not_run_for_ever(project: Project) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    for host, status in ((platform.node(), "KILLED"), ("another machine", "RUNNING")):
        project.training(status="running", pid=dead.pid, host=host)
        assert Records([project.data], "demo").entries()[f"demo/train/{NAME}"].status == status


def test_a_look_at_what_did_not_change_gives_the_same_and_opens_no_finished_record(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain(project)
    history = project.data / "epochs.csv"
    working = {"status": "running", "pid": os.getpid(), "history": str(history)}
    running = project.record("work/running/score.json", "score", "another", **working)
    found = Records([project.data], "demo")
    first = found.entries()
    read: list[str] = []

    def read_record(path: Path) -> object:
        read.append(path.name)
        return json.loads(path.read_text())

    monkeypatch.setattr(watch.json_checksum, "read", read_record)
    assert found.entries() == first
    project.asked("segment", spec={"train": "f" * 16})
    history.write_text("epoch,loss\n1,0.5\n")
    second = found.entries()
    changed = {key for key, entry in second.items() if first.get(key) != entry and entry.node != "cell"}
    assert changed == {f"demo/segment/{NAME}", "demo/score/another"}
    running.unlink()
    assert "demo/score/another" not in found.entries()
    assert sorted(read) == ["score.json", "score.json", "segment.json"]


def test_epochs_lie_as_far_apart_as_they_took_and_of_1000_are_181_points() -> None:
    assert [n for n in range(1, 1001) if vitals.is_plotted(n)][98:101] == [99, 100, 104]
    assert sum(map(vitals.is_plotted, range(1, 1001))) == 181
    entry = Entry(
        *("key", "train", "digest", "name", "FINISHED", 1000, None, {}, {}, {}, {}),
        history="epoch,loss,train_seconds,validate_seconds\n1,0.5,2.0,1.0\n2,0.4,3.0,1.0\n",
    )
    assert {(point.step, point.time) for point in entry.epochs()} == {(1, 4000), (2, 8000)}


def fault(project: Project, uri: str) -> str:
    project.training()
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
    project.make_store()
    # Another process would open it anew; this one knows it under its old address.
    moved = (project.root / "mlflow.db").rename(project.root / "moved.db")
    with sqlite3.connect(moved) as database:
        database.execute("UPDATE alembic_version SET version_num = 'ffffffffffff'")
    assert "then run 'mlflow db upgrade <database_uri>'" in fault(project, f"sqlite:///{moved}")


def test_neither_passwords_nor_traces_are_told() -> None:
    said = str(store._fault("postgresql://me:secret@host/db", OSError("refused")))
    assert "secret" not in said
    assert "postgresql://me:***@host/db" in said
    said = str(store._fault("sqlite:///mlflow.db", ImportError("no MLflow here")))
    assert "MLflow cannot be imported (no MLflow here); `make setup` installs it" in said
