"""Going on after a kill: leftover jobs end, Snakemake's lock opens, the workflow runs on.

When Snakemake is killed outright its jobs live on and go on writing. They bear its mark in their environment
(set in ``workflow/rules/common.smk``): a node which somebody runs by hand is not taken for one of them.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NoReturn

import psutil

from bgbias.errors import UserError
from bgbias.files.locks import Taken, locked
from bgbias.progress import say
from bgbias.study.params import Study

MARK = "BGBIAS_SNAKEMAKE"
LOCKS = Path(".snakemake/locks")
GRACE_SECONDS = 10.0


def resume(study: Study, params: Path, grid: str | None, arguments: list[str]) -> NoReturn:
    """End leftover jobs, unlock, and become Snakemake with ``arguments``, on the screen that ``make run`` has.

    A Snakemake that is still alive in this folder is not disturbed, nor is another resumption: that is an error which names it.
    """
    _refuse(snakemake_here())
    _claim(study)
    end(leftovers())
    chosen = ["--config", f"params={params}", *([f"grid={grid}"] if grid else [])]
    base = [sys.executable, "-m", "snakemake"]
    if any(LOCKS.glob("*")):
        unlocked = subprocess.run([*base, "--unlock", *chosen], capture_output=True, text=True, check=False)
        if unlocked.returncode:
            raise UserError(f"Snakemake cannot be unlocked:\n{unlocked.stderr.strip()}")
    # Unlocking takes seconds, in which somebody may have started it.
    _refuse(snakemake_here())
    # In its place, not below: Ctrl-C must reach Snakemake and nothing else.
    # How many cores, and where, is told by the profile: the default one, or another among the arguments.
    screen = [] if "--logger" in arguments else ["--logger", "bgbias"]
    command = [*base, *screen, "--rerun-incomplete", *arguments, *chosen]
    os.execv(sys.executable, command)


def _refuse(process: int | str | None) -> None:
    if process is not None:
        raise UserError(
            f"Snakemake is at work in this folder (process {process}); wait for it, or stop it: kill {process}"
        )


@contextmanager
def alone() -> Iterator[None]:
    """Be the only Snakemake that makes anything in this folder, for as long as this lasts; another one is an error that names it.

    Snakemake's own locks are lists of files beside each other: of two that begin at once, neither sees the other's, and the first
    that ends deletes both.
    """
    with ExitStack() as held:
        try:
            held.enter_context(locked(LOCKS.parent / "bgbias.lock", seconds=0))
        except Taken as error:
            _refuse(error.holder)
        yield


def _claim(study: Study) -> None:
    """Let nobody else resume here until this process, which becomes Snakemake, has ended in whatever way."""
    path = study.files.at("locks", name="resume")
    path.parent.mkdir(parents=True, exist_ok=True)
    claim = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        _refuse(path.read_text(encoding="utf-8") or "unknown")
    os.ftruncate(claim, 0)
    os.write(claim, str(os.getpid()).encode())
    # Snakemake keeps it; jobs that outlive it do not.
    os.set_inheritable(claim, True)


def leftovers() -> list[psutil.Process]:
    """Jobs of this folder that a Snakemake started; to be asked for only when none is at work here."""
    # The mirror into MLflow ends by itself.
    return [p for p in _processes_here() if MARK in p.info["environ"] and "track" not in p.info["cmdline"]]


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
        known = process.info
        # Other people's processes tell nothing, and are not ours.
        if known["cwd"] == here and known["environ"] is not None and process.pid != os.getpid():
            yield process
