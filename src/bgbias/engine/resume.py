"""One Snakemake a folder; and resuming after a kill: leftover jobs end, Snakemake's lock opens, the workflow runs.

When Snakemake is killed outright its jobs live on and keep writing. They bear its mark in their environment (set in
``workflow/rules/common.smk``): a step that somebody runs by hand is not taken for one of them.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NoReturn

import psutil

from bgbias.errors import UserError
from bgbias.files.locks import LockTimeout, hold_lock
from bgbias.progress import say
from bgbias.study.params import Study

MARK = "BGBIAS_SNAKEMAKE"
LOCKS = Path(".snakemake/locks")
LOCK = LOCKS.parent / "bgbias.lock"
DVC_LOCKS = Path(".dvc/tmp/rwlock")
KILLED = "A Snakemake was killed here. `make resume` (or: python -m bgbias resume) ends its jobs, unlocks, and resumes."
GRACE_SECONDS = 10.0
_held = ExitStack()


def resume(study: Study, params: Path, grid: str | None, arguments: list[str]) -> NoReturn:
    """End leftover jobs, unlock, and become Snakemake with ``arguments``, on the screen that ``make run`` has.

    A Snakemake that is still alive in this folder is not disturbed, nor is another resumption: that is an error which names it.
    """
    # Free again when this process becomes Snakemake, which everybody sees.
    _held.enter_context(hold_lock(study.files.at("locks", name="resume"), 0, refusal=_at_work("{}")))
    _refuse()
    end(leftovers())
    _remove_broken_dvc_locks()
    chosen = ["--config", f"params={params}", *([f"grid={grid}"] if grid else [])]
    base = [sys.executable, "-m", "snakemake"]
    if any(LOCKS.glob("*")):
        unlocked = subprocess.run([*base, "--unlock", *chosen], capture_output=True, text=True, check=False)
        if unlocked.returncode:
            raise UserError(f"Snakemake cannot be unlocked:\n{unlocked.stderr.strip()}")
    # Unlocking takes seconds, in which somebody may have started it.
    _refuse()
    # In its place, not below: Ctrl-C must reach Snakemake and nothing else. Cores, and where, come from the profile.
    screen = [] if "--logger" in arguments else ["--logger", "bgbias"]
    os.execv(sys.executable, [*base, *screen, "--ignore-incomplete", *arguments, *chosen])


def hold_folder() -> None:
    """Be the only Snakemake that makes anything in this folder until this process ends; another one is an error that names it.

    Snakemake's own locks are lists of files beside each other: of two that begin at once, neither sees the other's, and the first
    that ends deletes both.
    """
    # Who only looks has it for a moment.
    _held.enter_context(hold_lock(LOCK, seconds=2.0, refusal=_at_work("{}")))


def state_of_folder() -> str:
    """What stands in the way of a run here, in a sentence: a Snakemake at work, or a lock of one that was killed; else empty."""
    try:
        with hold_lock(LOCK, seconds=0):
            pass
    except LockTimeout as error:
        return _at_work(error.holder)
    if not any(LOCKS.glob("*")):
        return ""
    process = snakemake_here()  # one that still plans
    return KILLED if process is None else _at_work(process)


def _remove_broken_dvc_locks() -> None:
    """DVC writes its list of locks in place, and never runs again here where it was killed in between."""
    try:
        json.loads(DVC_LOCKS.read_text(encoding="utf-8"))
    except FileNotFoundError:
        pass
    except ValueError:
        DVC_LOCKS.unlink()


def _refuse() -> None:
    process = snakemake_here()
    if process is not None:
        raise UserError(_at_work(process))


def _at_work(process: int | str) -> str:
    return f"Snakemake is at work in this folder (process {process}); wait for it, or stop it: kill {process}"


def leftovers() -> list[psutil.Process]:
    """Jobs of this folder that a Snakemake started; to be asked for only when none is at work here."""
    # The mirror into MLflow, `python -m bgbias track`, ends by itself.
    return [p for p in _processes_here() if MARK in p.info["environ"] and p.info["cmdline"][3:4] != ["track"]]


def end(processes: list[psutil.Process]) -> None:
    """Terminate processes, and kill those that have not ended after a while."""
    for process in processes:
        say(f"ends leftover process {process.pid}")
        try:
            process.terminate()
            process.resume()  # one that was suspended hears nothing before
        except psutil.NoSuchProcess:
            continue
    _, alive = psutil.wait_procs(processes, GRACE_SECONDS)
    for process in alive:
        process.kill()
    psutil.wait_procs(alive, GRACE_SECONDS)


def snakemake_here() -> int | None:
    """The process id of a Snakemake that is at work in this folder."""
    return next((p.pid for p in _processes_here() if _runs_snakemake(p.info["cmdline"])), None)


def _runs_snakemake(line: list[str]) -> bool:
    # An interpreter with Snakemake as its script or module; a job's shell only names it in its text.
    interpreter = Path(line[0]).name.startswith("python") if line else False
    return interpreter and any(Path(word).name == "snakemake" for word in line[1:3])


def _processes_here() -> Iterator[psutil.Process]:
    here = str(Path.cwd().resolve())
    for process in psutil.process_iter(["cmdline", "cwd", "environ"]):
        process_info = process.info
        # Other people's processes tell nothing, and are not ours.
        if process_info["cwd"] == here and process_info["environ"] is not None and process.pid != os.getpid():
            yield process
