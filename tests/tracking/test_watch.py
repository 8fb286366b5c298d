"""MLflow shows what the records say, one run a node, whatever happens to the store or to the nodes."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import subprocess
import threading
from concurrent.futures import ProcessPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from handmade_records import CELL, MODEL, NAME, SCORE, START, TRAIN, Project, whole_grid
from project import PATIENCE, wait_for

from bgbias.errors import UserError
from bgbias.tracking import entries, store, watch

if TYPE_CHECKING:
    from mlflow.entities import Run

SRC = Path(__file__).parents[2] / "src"


def test_one_run_a_node_with_all_it_did_and_a_lost_store_is_rebuilt_the_same(project: Project) -> None:
    whole_grid(project)
    assert project.sync() == (4, 0, 0)
    assert project.sync() == (0, 0, 4)
    runs = project.runs()
    assert set(runs) == {TRAIN, SCORE, MODEL, "figure drop"}
    train = runs[TRAIN]
    cell = {k: str(v) for k, v in CELL.items()} | {"node": "train"}
    settings = {"train.lr": "0.0001", "train.crop_scale": "[0.16, 1.0]", "loss.margin": "0.5"}
    assert train.data.params == cell | settings
    upstream = '{"index": "' + "ab" * 8 + '"}'
    assert train.data.tags.items() >= (cell | {"grid": "demo", "device": "cpu", "upstream": upstream}).items()
    measured = {"best_val_map_at_r": 0.4, "seconds": 5.0, "peak_memory_mb": 700.5}
    assert train.data.metrics.items() >= measured.items()
    began = round(1000 * datetime.fromisoformat(START).timestamp())
    assert (train.info.status, train.info.start_time) == ("FINISHED", began)
    assert train.info.end_time == began + 5000
    steps = [step for step, _ in project.curve(train, "epoch/loss")]
    assert steps[98:] == [99, 100, 104, 108, 112, 116, 120, 124, 128, 130]
    assert runs[SCORE].data.metrics["relative_drop"] == pytest.approx(1 / 6, abs=0)
    figures = Path(runs["figure drop"].info.artifact_uri)
    assert (figures / "drop.png").read_bytes() == b"picture"
    assert figures.is_relative_to(project.root / "mlartifacts")

    # A store that is lost is made again. MLflow still writes to the file that is gone: whoever does so is told.
    (project.root / "mlflow.db").rename(project.root / "lost.db")
    with pytest.raises(UserError, match=r"mlflow.db was deleted; .* bgbias track"):
        project.sync_to(project.uri)
    project.make_store()
    other = (project.root / "mlflow.db").rename(project.root / "other.db")
    assert project.sync_to(f"sqlite:///{other}") == (4, 0, 0)
    assert project.sync_to(f"sqlite:///{other}") == (0, 0, 4)


def test_a_curve_grows_while_its_node_works_and_begins_anew_with_it(project: Project) -> None:
    running = {"status": "running", "pid": os.getpid()}
    project.history(2, text="3,0.33")
    work = project.training(**running)
    assert project.sync() == (2, 0, 0)
    first = project.runs()[TRAIN]
    assert (first.info.status, first.info.end_time) == ("RUNNING", None)
    assert [step for step, _ in project.curve(first, "epoch/loss")] == [1, 2]

    project.history(4)
    assert project.sync() == (0, 2, 0)  # the model's run has the curve, too
    assert project.sync() == (0, 0, 2)
    work.unlink()
    project.history(5, seconds=False)
    seconds = {"train_seconds": [1.5] * 5, "validate_seconds": [0.5] * 5}
    project.training(metrics={"best_val_map_at_r": 0.44}, epoch_seconds=seconds)
    assert project.sync() == (0, 2, 0)
    done = project.runs()[TRAIN]
    assert (done.info.run_id, done.info.status) == (first.info.run_id, "FINISHED")
    assert [step for step, _ in project.curve(done, "epoch/val_map_at_r")] == [1, 2, 3, 4, 5]
    # A finished curve holds no seconds; the record has them.
    assert project.curve(done, "epoch/train_seconds") == [(epoch, 1.5) for epoch in range(1, 6)]
    assert project.sync() == (0, 0, 2)

    # Trained again from the beginning: the old points must not stay in the new curve.
    project.history(2, loss=2.0)
    project.training(**running)
    assert project.sync() == (0, 2, 0)
    assert project.curve(project.runs()[TRAIN], "epoch/loss") == [(1, 2.0), (2, 1.0)]


def test_failure_is_shown_and_forgotten_when_mended(project: Project) -> None:
    path = f"runs/demo/scores/{NAME}/score.json"
    project.record(path, "score", NAME, status="failed", error="RuntimeError: no", finished=START)
    project.sync()
    failed = project.runs()[SCORE]
    assert (failed.info.status, failed.data.tags["error"]) == ("FAILED", "RuntimeError: no")
    project.record(path, "score", NAME, metrics={"map_at_r_clean": 0.6})
    assert project.sync() == (0, 1, 0)
    mended = project.runs()[SCORE]
    assert (mended.info.run_id, mended.info.status) == (failed.info.run_id, "FINISHED")
    assert "error" not in mended.data.tags


def test_changed_settings_make_a_new_run_and_mark_the_old_one(project: Project) -> None:
    project.training(spec={"loss": {"margin": 0.5}})
    project.sync()
    project.training(spec={"loss": {"margin": 0.2}})
    assert project.sync() == (2, 0, 0)
    runs = project.runs()
    assert set(runs) == {n for name in (TRAIN, MODEL) for n in (name, f"(superseded) {name}")}
    assert runs[TRAIN].data.params["loss.margin"] == "0.2"
    assert runs[TRAIN].data.tags["bgbias.superseded"] == "no"
    digest = runs[TRAIN].data.tags["bgbias.digest"]
    assert runs[f"(superseded) {TRAIN}"].data.tags["bgbias.superseded"] == f"by {digest}"

    project.training(spec={"loss": {"margin": 0.5}})
    assert project.sync() == (0, 2, 0)
    assert project.runs()[TRAIN].data.params["loss.margin"] == "0.5"


def test_settings_beyond_mlflows_limits_are_shortened(project: Project) -> None:
    many = {f"data/{i}": "0" * 64 for i in range(500)}
    spec = {"long": "x" * 7000, "none": None, "many": many, "a(b)": 1} | {str(i): i for i in range(150)}
    project.record("report/demo/collect.json", "collect", "demo", spec=spec, inputs=many)
    assert project.sync() == (1, 0, 0)
    (run,) = project.runs().values()
    assert len(run.data.params["long"]) == 6000
    assert (run.data.params["none"], run.data.params["a_b_"], run.data.params["149"]) == ("null", "1", "149")
    assert len(run.data.tags["inputs"]) == 8000


@pytest.mark.parametrize("uri", ["http://127.0.0.1:9", "sqlite:////proc/nowhere/mlflow.db"])
def test_a_store_out_of_reach_is_one_line_and_never_an_error_of_the_workflow(
    project: Project, uri: str, caplog: pytest.LogCaptureFixture
) -> None:
    project.training()
    # The number of no process.
    watch.follow([project.data], uri, "demo", parent=10**9, stop=threading.Event(), interval=0.01)
    first, last = (record.getMessage() for record in caplog.records if record.name == "bgbias.tracking")
    assert re.search("did not take the records.*python -m bgbias track", first)
    assert last.endswith("catch up with: python -m bgbias track --grid demo")


def test_follow_catches_up_with_a_store_that_fails_and_ends_with_the_workflow(
    project: Project, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write, failed = watch._write, list[str]()

    def fail_twice(*what: Any) -> list[str]:
        if len(failed) < 2:
            failed.append("nobody answers")
            raise UserError(failed[-1])
        return write(*what)

    monkeypatch.setattr(watch, "_write", fail_twice)
    # The parent becomes a zombie when it is killed, as a workflow whose shell is busy does.
    parent = subprocess.Popen(["sleep", "3600"])
    project.make_store()
    project.history(2)
    project.training(status="running", pid=os.getpid())
    mirror = threading.Thread(
        target=watch.follow,
        args=([project.data], project.uri, "demo", parent.pid, threading.Event(), 0.05),
        daemon=True,
    )
    mirror.start()
    try:
        wait_for(lambda: TRAIN in project.runs(), "a run")
        project.history(3)
        wait_for(lambda: len(project.curve(project.runs()[TRAIN], "epoch/loss")) == 3, "an epoch")
        assert mirror.is_alive()
        project.asked("score")
    finally:
        parent.kill()
        mirror.join(timeout=PATIENCE)
        parent.wait()
    assert not mirror.is_alive()
    assert set(project.runs()) == {TRAIN, SCORE, MODEL}
    assert caplog.text.count("nobody answers") == 1


def test_two_processes_may_start_on_a_fresh_store(project: Project) -> None:
    whole_grid(project)
    # Forks of a process that has MLflow already, so that two imports of it do not spread out the two beginnings; not of this
    # one, whose threads may hold locks that nobody would open in its forks.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["mlflow.store.tracking.sqlalchemy_store"])
    with ProcessPoolExecutor(2, context) as processes:
        answers = [processes.submit(project.sync_to, project.uri) for _ in range(2)]
        assert sorted(answer.result() for answer in answers) == [(0, 0, 4), (4, 0, 0)]
    assert len(project.runs()) == 4


def test_a_run_that_another_machine_deletes_meanwhile_is_written_again(
    chained: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill, deleted = store.Experiment._fill, []

    def fill_too_late(self: store.Experiment, run: Run, *rest: Any) -> None:
        if not deleted:
            deleted.append(run.info.run_id)
            self.client.delete_run(run.info.run_id)
        fill(self, run, *rest)

    monkeypatch.setattr(store.Experiment, "_fill", fill_too_late)
    chained.sync()
    assert deleted
    shown = chained.runs()
    assert {TRAIN, MODEL} <= set(shown)
    assert deleted[0] not in {run.info.run_id for run in shown.values()}
    assert chained.sync()[:2] == (0, 0)


def test_the_views_show_columns_and_charts_of_what_the_runs_have(chained: Project) -> None:
    chained.sync()
    with store.experiment(chained.uri, "demo") as opened:
        client, identity = opened.client, opened.identity
    tags = client.get_experiment(identity).tags
    for name in ("cell", "compare", "train"):
        assert entries.page(identity, name) in tags["mlflow.note.content"]
        view = json.loads(tags[f"mlflow.sharedViewState.{name}"])
        (run,) = client.search_runs([identity], view["searchFilter"])
        assert run.info.run_name == MODEL
        params, metrics = run.data.params, run.data.metrics
        columns = {f"params.`{key}`" for key in params} | {f"metrics.`{key}`" for key in metrics}
        assert set(view["selectedColumns"]) <= columns
        for chart in view.get("compareRunCharts", []):
            axes = {chart[axis]["key"] for axis in ("xaxis", "yaxis") if axis in chart}
            axes |= {*chart.get("selectedMetrics", []), chart.get("metricKey")} - {None}
            assert axes <= metrics.keys()
            assert set(chart.get("selectedParams", [])) <= params.keys()


def test_only_tracking_imports_mlflow() -> None:
    words = ("import mlflow\n", "import mlflow.", "from mlflow")
    doors = {p for p in SRC.rglob("*.py") if any(word in p.read_text() for word in words)}
    assert doors == {SRC / "bgbias/tracking" / name for name in ("store.py", "registry.py")}
