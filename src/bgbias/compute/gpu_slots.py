"""A GPU of its own for every process that asks for one, so that N jobs on a machine use N different GPUs.

A process locks one of the slots in a folder and shows itself the slot's GPU alone, by ``CUDA_VISIBLE_DEVICES``, which CUDA reads
when it starts: torch must not have been imported yet. Locks are the kernel's: a slot is free again when its process ends, however
it ends. Whoever has set ``CUDA_VISIBLE_DEVICES`` (SLURM, a person) has chosen already. torch is not asked how many GPUs there
are, nvidia-smi is.

A process that waits for another one to prepare its pictures keeps its slot. To give it back would start nobody: Snakemake counts
the job among those of the GPUs as long as it runs.

Small models leave most of a GPU idle: with ``BGBIAS_CELLS_PER_GPU=K``, K processes share one, once every GPU has one.
"""

import itertools
import os
import platform
import re
import shutil
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path

from bgbias.compute.device import shares
from bgbias.files.locks import LockTimeout, hold_lock
from bgbias.progress import say

VISIBLE = "CUDA_VISIBLE_DEVICES"
SECONDS_BETWEEN_LOOKS = 1.0
SECONDS_TO_ANSWER = 60.0
# "GPU 0: NVIDIA H200 (UUID: GPU-1c4a...)", and below it, indented, the parts that a GPU was split
# into ("MIG-...").
LISTED = re.compile(r"^\s*(?P<kind>GPU|MIG).*\(UUID: (?P<uuid>[\w-]+)\)", re.MULTILINE)
_slot = ExitStack()  # closed by the end of the process, and not before


def take(slots: Path, device: str) -> None:
    """Wait for a free GPU and let this process see no other; nothing is done where there is none. ``slots``: the folder of locks.

    ``device`` is what ``device.pick`` gets: ``cpu`` needs no slot, and ``cuda:<number>`` is a person's own choice.
    """
    if device not in ("auto", "cuda") or VISIBLE in os.environ:
        return
    gpus = list_gpus()
    is_waiting = False
    while gpus:
        for share, (number, gpu) in itertools.product(range(shares()), enumerate(gpus)):
            # With the machine's name: the folder may be shared by several.
            name = f"{platform.node()}-{number}" + (f"-{share}" if share else "")
            try:
                _slot.enter_context(hold_lock(slots / f"{name}.lock", seconds=0))
            except LockTimeout:
                continue
            os.environ[VISIBLE] = gpu
            say(f"runs on GPU {number} of {len(gpus)} ({gpu})")
            return
        if not is_waiting:
            is_waiting = True
            say(f"waits: all {len(gpus)} GPU(s) are taken by other processes; see {slots}")
        time.sleep(SECONDS_BETWEEN_LOOKS)


def has_gpu() -> bool:
    """Whether this machine has a GPU of NVIDIA's."""
    return shutil.which("nvidia-smi") is not None


def list_gpus() -> list[str]:
    """The machine's GPUs by the names that ``CUDA_VISIBLE_DEVICES`` takes; a GPU that is split counts as its parts."""
    gpus: list[list[str]] = []
    for line in LISTED.finditer(nvidia_smi("-L")):
        if line["kind"] == "GPU":
            gpus.append([line["uuid"]])
        elif gpus:
            gpus[-1].append(line["uuid"])
    return [name for whole, *parts in gpus for name in (parts or [whole])]


def nvidia_smi(*arguments: str) -> str:
    """What nvidia-smi prints; empty where there is none or it fails."""
    command = ["nvidia-smi", *arguments]
    try:
        return subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=SECONDS_TO_ANSWER
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
