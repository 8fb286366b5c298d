"""Interrupted, terminated or killed, and started again: the same numbers as if nothing had happened."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
import small_study
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


@pytest.mark.workflow
def test_interrupted_and_killed_it_ends_with_the_same_numbers(smoke_run: Project, tmp_path: Path) -> None:
    run = smoke_run.copy(tmp_path / "project")
    (run.folder / SCORES).unlink()
    run.edit(*LONGER)
    undisturbed = run.copy(tmp_path / "undisturbed")
    undisturbed.snakemake(*TARGET)

    # Everything in the terminal's process group hears Ctrl-C.
    snakemake, training = begin_training(run)
    os.killpg(snakemake.pid, signal.SIGINT)
    assert snakemake.wait(PATIENCE) != 0
    wait_for(lambda: not training.is_running(), "the end of the training process")

    # The job of a killed Snakemake lives on, and nobody else may write that cell.
    snakemake, orphan = begin_training(run)
    snakemake.kill()
    snakemake.wait()
    orphan.suspend()  # or it might be done before the second has begun
    second = run.bgbias("train", *PLAIN, "--grid", "smoke", check=False)
    assert second.returncode == 2
    assert f"is being made by process {orphan.pid}" in second.stdout
    assert "make resume" in second.stdout

    run.bgbias("resume", "--grid", "smoke", "--", SCORES)
    assert not orphan.is_running()
    for name in (MODEL, SCORES):
        assert (run.folder / name).read_bytes() == (undisturbed.folder / name).read_bytes()
    assert not (run.folder / HISTORY).exists()
    assert "Nothing to be done" in run.snakemake("-n", *TARGET)


def begin_training(run: Project) -> tuple[subprocess.Popen[bytes], psutil.Process]:
    """Snakemake, and the process that trains, which has finished an epoch more; the job's command waits for it."""
    history = run.folder / HISTORY

    def epochs() -> int:
        return len(history.read_text(encoding="utf-8").splitlines()) - 1 if history.exists() else 0

    before, snakemake = epochs(), run.start(*TARGET)

    def goes_on() -> bool:
        assert snakemake.poll() is None, "the run ended before it could be interrupted"
        return epochs() > before + 1

    wait_for(goes_on, "an epoch")
    (record,) = run.folder.glob("data/work/running/train__*.json")
    return snakemake, psutil.Process(json.loads(record.read_text())["pid"])


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


@pytest.mark.usefixtures("small_plugins")
@pytest.mark.parametrize(("text", "stays"), [("", False), ('{"read": {}, "write": {}}', True)])
def test_a_list_of_locks_that_dvc_began_to_write_is_removed(
    raw: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, stays: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "execv", lambda *_: None)
    resume.DVC_LOCKS.parent.mkdir(parents=True)
    resume.DVC_LOCKS.write_text(text, encoding="utf-8")
    resume.resume(small_study.load(tmp_path, raw), tmp_path / "params.yaml", None, [])
    assert resume.DVC_LOCKS.exists() == stays
    resume._held.close()


def _ready(pid: int) -> bool:
    return "time.sleep" in " ".join(psutil.Process(pid).cmdline())
