"""A GPU of its own for every process that asks for one, so that N jobs on a machine use N different GPUs.

A process locks one of the slots in a folder and shows itself the slot's GPU alone, by ``CUDA_VISIBLE_DEVICES``, which CUDA reads
when it starts: torch must not have been imported yet. Locks are the kernel's: a slot is free again when its process ends, however
it ends. Whoever has set ``CUDA_VISIBLE_DEVICES`` (SLURM, a person) has chosen already. torch is not asked how many GPUs there
are, nvidia-smi is.

A process that waits for another one to prepare its pictures keeps its slot. To give it back would start nobody: Snakemake counts
the job among those of the GPUs as long as it runs.

Small models leave most of a GPU idle: with ``BGBIAS_CELLS_PER_GPU=K``, K processes share one, once every GPU has one.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import platform
import re
import subprocess
import time
from pathlib import Path
from typing import IO

from bgbias.compute.device import shares
from bgbias.progress import say

VISIBLE = "CUDA_VISIBLE_DEVICES"
SECONDS_BETWEEN_LOOKS = 1.0
# "GPU 0: NVIDIA H200 (UUID: GPU-1c4a...)", and below it, indented, the parts that a GPU was split into ("MIG-...").
LISTED = re.compile(r"^\s*(?P<kind>GPU|MIG).*\(UUID: (?P<uuid>[\w-]+)\)", re.MULTILINE)
# Closing the file would free the slot.
_held: list[IO[str]] = []


def take(slots: Path, wanted: str) -> None:
    """Wait for a free GPU and let this process see no other; nothing is done where there is none. ``slots``: the folder of locks.

    ``wanted`` is what ``device.pick`` gets: ``cpu`` needs no slot, and ``cuda:<number>`` is a person's own choice.
    """
    if wanted not in ("auto", "cuda") or VISIBLE in os.environ:
        return
    gpus = installed()
    told = False
    while gpus:
        for share, (number, gpu) in itertools.product(range(shares()), enumerate(gpus)):
            if _lock(slots, number, share):
                os.environ[VISIBLE] = gpu
                say(f"runs on GPU {number} of {len(gpus)} ({gpu})")
                return
        if not told:
            told = True
            say(f"waits: all {len(gpus)} GPU(s) are taken by other processes; see {slots}")
        time.sleep(SECONDS_BETWEEN_LOOKS)


def installed() -> list[str]:
    """The machine's GPUs by the names that ``CUDA_VISIBLE_DEVICES`` takes; a GPU that is split counts as its parts."""
    try:
        said = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)
    except OSError:
        return []
    gpus: list[list[str]] = []
    for line in LISTED.finditer(said.stdout) if said.returncode == 0 else ():
        if line["kind"] == "GPU":
            gpus.append([line["uuid"]])
        elif gpus:
            gpus[-1].append(line["uuid"])
    return [name for whole, *parts in gpus for name in (parts or [whole])]


def _lock(slots: Path, number: int, share: int) -> bool:
    slots.mkdir(parents=True, exist_ok=True)
    # With the machine's name: the folder may be shared by several.
    name = f"{platform.node()}-{number}" + (f"-{share}" if share else "")
    file = (slots / f"{name}.lock").open("a+", encoding="utf-8")
    try:
        # Not flock, which a forked child that outlives the process would keep.
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        file.close()
        return False
    file.truncate(0)
    file.write(f"{os.getpid()}\n")
    file.flush()
    _held.append(file)
    return True
