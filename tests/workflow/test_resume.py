"""Interrupted, terminated or killed, and started again: the same numbers as if nothing had happened. And a full disk loses
nothing that was finished.
"""

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from accidents import ACCIDENTS, PROGRAMS, Frail
from project import PATIENCE, SMOKE, Project, fresh, wait_for
from small_study import data_nodes, load, outputs, run

from bgbias.engine import graph, records, resume
from bgbias.files import checksums
from bgbias.nodes import index
from bgbias.study import params
from bgbias.study.cell import Cell

SCORES = f"data/runs/smoke/scores/{SMOKE}/plain/seed0/scores.csv"
MODEL = f"data/runs/smoke/models/{SMOKE}/plain/seed0/model.safetensors"
HISTORY = f"data/work/partial/smoke/{SMOKE}/plain/seed0/history.csv"
TARGET = ("--config", "grid=smoke", "--", SCORES)


@pytest.mark.workflow
def test_interrupted_and_killed_it_ends_with_the_same_numbers(smoke_run: Project, tmp_path: Path) -> None:
    run = smoke_run.copy(tmp_path / "project")
    (run.folder / SCORES).unlink()
    longer = "max_epochs: 20\n      patience: 20\n      iterations_per_epoch: 8\n"
    run.edit("max_epochs: 2\n      iterations_per_epoch: 4\n", longer)
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
    cell = ("toy_smoke", "tiny", "contrastive", "plain", "--grid", "smoke")
    second = run.bgbias("train", *cell, check=False)
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
        subprocess.Popen([*sleep, "index", "track"], env=marked),  # of a dataset that is called so
        subprocess.Popen(sleep, env=plain),  # by hand
        subprocess.Popen(sleep, env=marked, cwd=elsewhere),  # another project's
        subprocess.Popen([*sleep, "track"], env=marked),  # the mirror into MLflow, which ends by itself
    ]
    try:
        wait_for(lambda: all("time.sleep" in str(psutil.Process(p.pid).cmdline()) for p in started), "all")
        assert {p.pid for p in resume.leftovers()} == {p.pid for p in started[:3]}
        resume.end(resume.leftovers())
        assert all(p.poll() is not None for p in started[:3])
        assert all(p.poll() is None for p in started[3:])
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
    resume.resume(load(tmp_path, raw), tmp_path / "params.yaml", None, [])
    assert resume.DVC_LOCKS.exists() == stays
    resume._held.close()


# A full disk.


@pytest.fixture
def full_disk(small_plugins: None, monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Let the next write of a path meet a full disk."""
    if not Path("/dev/full").exists():
        pytest.skip("needs Linux's /dev/full")
    # Nodes clear the leftovers of killed writers away.
    monkeypatch.setattr(records, "remove_leftovers", lambda path: None)

    def fill(path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_name(f".{path.name}.{os.getpid()}.partial").symlink_to("/dev/full")

    return fill


@pytest.mark.parametrize("name", ["photos", "index_record"])
def test_full_disk_loses_nothing_that_was_finished(
    raw: dict[str, Any], tmp_path: Path, full_disk: Callable[[Path], None], name: str
) -> None:
    study = load(tmp_path, raw)
    data_nodes(study)
    before = outputs(study)
    full_disk(study.files.at(name, dataset="squares"))
    with pytest.raises(OSError, match="No space left on device") as told:
        index.index(study, "squares")
    assert told.value.filename == str(study.files.at(name, dataset="squares"))
    assert outputs(study) == before
    (running,) = Path(study.paths.work, "running").iterdir()
    assert json.loads(running.read_text())["status"] == "failed"
    index.index(study, "squares")
    assert outputs(study) == before
    assert list(Path(study.paths.work, "running").iterdir()) == []


def test_what_training_did_is_not_lost(
    raw: dict[str, Any],
    tmp_path: Path,
    full_disk: Callable[[Path], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With space again, the same command only writes the model down."""
    study = load(tmp_path, raw)
    data_nodes(study)
    cell = Cell("squares", "pixels", "contrastive", "plain", 0)
    model = study.files.at("model", **cell.wildcards)
    full_disk(model)
    with pytest.raises(OSError, match="No space left on device"):
        run(study, cell, "train")
    assert list(model.parent.iterdir()) == []
    monkeypatch.setattr("bgbias.training.loop.train_epoch", None)
    run(study, cell, "train")
    assert model.exists()


# A series of accidents drawn from a seed: ``BGBIAS_SOAK_SEED`` repeats it (each prints its own), ``BGBIAS_SOAK_ROUNDS`` makes it
# longer.

ROUNDS = int(os.environ.get("BGBIAS_SOAK_ROUNDS", "9"))
TRIES = 4  # rounds in which an accident may come too late, for one in which it happens


@pytest.fixture
def frail(smoke_run: Project, tmp_path: Path) -> Frail:
    """A finished run, with its products under DVC."""
    seed = int(os.environ.get("BGBIAS_SOAK_SEED", random.SystemRandom().randrange(10**6)))
    print(f"BGBIAS_SOAK_SEED={seed} BGBIAS_SOAK_ROUNDS={ROUNDS}", flush=True)
    copied = smoke_run.copy(tmp_path / "project")
    copied.edit("grid: demo ", "grid: smoke ")
    subprocess.run(["git", "init", "--quiet"], cwd=copied.folder, check=True)
    made = Frail(copied.folder, seed)
    made.run("dvc", "commit", "--force", "--quiet")
    return made


@pytest.mark.slow
@pytest.mark.workflow
def test_after_any_accident_products_are_those_of_an_undisturbed_run(
    smoke_run: Project, frail: Frail
) -> None:
    wanted = made(smoke_run.folder)
    happened: Counter[str] = Counter()
    deck: list[str] = []
    for _ in range(TRIES * ROUNDS):
        if happened.total() >= ROUNDS and set(happened) == set(ACCIDENTS):
            break
        deck = deck or frail.random.sample(list(ACCIDENTS), len(ACCIDENTS))
        accident, programs = ACCIDENTS[deck[0]]
        name = frail.random.choice(programs)
        print(f"{' '.join(PROGRAMS[name])}, {frail.spoil()}: {deck[0]}", end="", flush=True)
        program = frail.begin(name)
        frail.wait_a_while(program)
        if accident(frail, program):
            happened[deck.pop(0)] += 1
            print(flush=True)
        else:
            print(", but too late", flush=True)
        frail.recover()
        assert made(frail.folder) == wanted
        assert left_lying(frail.folder) == []
        assert frail.alive("all") == []
    print(dict(happened), flush=True)
    assert set(happened) == set(ACCIDENTS), "not every accident happened"
    frail.run(*PROGRAMS["dvc"])
    assert "up to date" in frail.run("dvc", "status").stdout
    assert made(frail.folder) == wanted


def made(folder: Path) -> dict[str, str]:
    """What every node made and certifies, by its bytes."""
    study, found = params.load(folder / "params.yaml", "smoke"), dict[str, str]()
    for node in graph.in_order(study):
        record = records.read(folder / node.record(study))
        assert record["status"] == "done"
        for name, certified in record["outputs"].items():
            assert checksums.sha256(folder / name) == certified, name
            found[name] = certified
    assert sum(name.endswith((".csv", ".tex", ".safetensors")) for name in found) > 10
    return found


def left_lying(folder: Path) -> list[str]:
    """What nobody will ever read: halves of files, and the states of nodes that are finished."""
    data = folder / "data"
    patterns = ("**/*.partial", "**/*.stale", "**/checkpoint.pt", "work/running/*")
    found = [path for pattern in patterns for path in data.glob(pattern)]
    return sorted(str(path.relative_to(folder)) for path in found)
