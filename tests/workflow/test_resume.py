"""Interrupted, terminated or killed, and started again: the same numbers as if nothing had happened."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from project import PATIENCE, SMOKE, Project, fresh, wait_for

from bgbias.engine import resume

SCORES = f"data/runs/smoke/scores/{SMOKE}/plain/seed0/scores.csv"
MODEL = f"data/runs/smoke/models/{SMOKE}/plain/seed0/model.safetensors"
HISTORY = f"data/work/partial/smoke/{SMOKE}/plain/seed0/history.csv"
PLAIN = ("toy_smoke", "tiny", "contrastive", "plain", "--seed", "0")
TARGET = ("--config", "grid=smoke", "--", SCORES)
LONGER = (
    "max_epochs: 2\n      iterations_per_epoch: 4\n",
    "max_epochs: 20\n      patience: 20\n      iterations_per_epoch: 8\n",
)


@pytest.fixture
def interrupted(smoke_run: Project, tmp_path: Path) -> Project:
    """A finished run whose training is to be done again, longer."""
    run = smoke_run.copy(tmp_path / "project")
    (run.folder / SCORES).unlink()
    run.edit(*LONGER)
    return run


def press_ctrl_c(run: Project) -> None:
    """Everything in the terminal's process group hears it."""
    snakemake = _until_epoch(run, run.start(*TARGET), 2)
    os.killpg(snakemake.pid, signal.SIGINT)
    assert snakemake.wait(PATIENCE) != 0
    wait_for(lambda: not _training(run), "the end of the training process")


def kill_snakemake_and_then_the_training(run: Project) -> None:
    """The job of a killed Snakemake lives on, and nobody else may write that cell."""
    snakemake = _until_epoch(run, run.start(*TARGET), _epochs(run) + 1)
    snakemake.kill()
    snakemake.wait()
    orphan = _at_work(run)
    orphan.suspend()  # or it might be done before the second has begun
    second = run.bgbias("train", *PLAIN, "--grid", "smoke", check=False)
    assert second.returncode == 2
    assert f"is being made by process {orphan.pid}" in second.stdout
    assert "make resume" in second.stdout
    resumed = run.start("--grid", "smoke", "--", SCORES, program=("bgbias", "resume"))
    wait_for(lambda: not orphan.is_running(), "the end of the orphan")
    done = _epochs(run)
    wait_for(lambda: _training(run), "training")
    _until_epoch(run, resumed, done + 1)
    _at_work(run).kill()
    assert resumed.wait(PATIENCE) != 0


EVERY = (press_ctrl_c, kill_snakemake_and_then_the_training)


@pytest.mark.workflow
@pytest.mark.parametrize("accidents", [EVERY[:1], pytest.param(EVERY, marks=pytest.mark.slow)])
def test_after_any_interruption_it_ends_with_the_same_numbers(
    interrupted: Project, accidents: tuple[Callable[[Project], None], ...], tmp_path: Path
) -> None:
    undisturbed = interrupted.copy(tmp_path / "undisturbed")
    undisturbed.snakemake(*TARGET)
    for happen in accidents:
        happen(interrupted)
    interrupted.bgbias("resume", "--grid", "smoke", "--", SCORES)
    for name in (MODEL, SCORES):
        assert (interrupted.folder / name).read_bytes() == (undisturbed.folder / name).read_bytes()
    assert not (interrupted.folder / HISTORY).exists()
    assert "Nothing to be done" in interrupted.snakemake("-n", *TARGET)


@pytest.mark.workflow
def test_of_two_snakemakes_one_works_and_the_other_names_it(tmp_path: Path) -> None:
    run = fresh(tmp_path / "project")
    log = tmp_path / "first.log"
    first = run.start("--cores", "1", "--config", "grid=smoke", "--", "data", said=log)
    try:
        wait_for(lambda: "rule " in log.read_text(encoding="utf-8"), "the first job")
        # Held where it is: however long the others take, it has not ended.
        os.killpg(first.pid, signal.SIGSTOP)
        second = run.run("snakemake", "--config", "grid=smoke", "--", "data", check=False)
        assert second.returncode == 1
        assert f"Snakemake is at work in this folder (process {first.pid})" in second.stdout
        assert f"stop it: kill {first.pid}" in second.stdout
        assert "Traceback" not in second.stdout
        resumed = run.bgbias("resume", "--grid", "smoke", check=False)
        assert resumed.returncode == 2
        assert f"at work in this folder (process {first.pid})" in resumed.stdout
        # Who only looks is let in.
        assert "rule " in run.snakemake("--dry-run", "--config", "grid=smoke", "--", "data")
        assert first.poll() is None
        os.killpg(first.pid, signal.SIGKILL)
        first.wait()
        third = run.run("snakemake", "--config", "grid=smoke", "--", "data", check=False)
        assert third.returncode == 1
        assert "A Snakemake was killed here. `make resume`" in third.stdout
        assert "Traceback" not in third.stdout
    finally:
        if first.poll() is None:
            os.killpg(first.pid, signal.SIGKILL)


def test_leftovers_are_marked_jobs_of_this_folder_and_end_whether_they_listen_or_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(resume, "GRACE_SECONDS", 0.5)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    marked = os.environ | {resume.MARK: "1"}
    plain = {k: v for k, v in os.environ.items() if k != resume.MARK}
    sleep = [sys.executable, "-c", "import time; time.sleep(3600)"]

    def ignore() -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)

    started = [
        subprocess.Popen(sleep, env=marked),
        subprocess.Popen(sleep, env=marked, preexec_fn=ignore),
        subprocess.Popen(sleep, env=plain),  # by hand
        subprocess.Popen(sleep, env=marked, cwd=elsewhere),  # another project's
        subprocess.Popen([*sleep, "track"], env=marked),  # the mirror into MLflow, which ends by itself
    ]
    try:
        wait_for(lambda: all(_ready(p.pid) for p in started), "five processes")
        assert {p.pid for p in resume.leftovers()} == {p.pid for p in started[:2]}
        resume.end(resume.leftovers())
        assert all(p.poll() is not None for p in started[:2])
        assert all(p.poll() is None for p in started[2:])
    finally:
        for process in started:
            process.kill()
            process.wait()


def _until_epoch(run: Project, process: subprocess.Popen[bytes], epoch: int) -> subprocess.Popen[bytes]:
    def reached() -> bool:
        assert process.poll() is None, "the run ended before it could be interrupted"
        return _epochs(run) >= epoch

    wait_for(reached, f"epoch {epoch}")
    return process


def _epochs(run: Project) -> int:
    """Epochs that the interrupted training has finished."""
    history = run.folder / HISTORY
    return len(history.read_text(encoding="utf-8").splitlines()) - 1 if history.exists() else 0


def _training(run: Project) -> list[psutil.Process]:
    """The training processes of this run."""
    found = []
    for process in psutil.process_iter(["cmdline", "cwd"]):
        line = process.info["cmdline"] or []
        if line[1:4] == ["-m", "bgbias", "train"] and process.info["cwd"] == str(run.folder):
            found.append(process)
    return found


def _at_work(run: Project) -> psutil.Process:
    """The process that trains; the job's command is another one, which waits for it."""
    (record,) = run.folder.glob("data/work/running/train__*.json")
    return psutil.Process(json.loads(record.read_text())["pid"])


def _ready(pid: int) -> bool:
    return "time.sleep" in " ".join(psutil.Process(pid).cmdline())
