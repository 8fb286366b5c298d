"""One comparison in a process of its own, which has its threads before any library is loaded.

    python -m benchmarks._measure COMPARISON DEVICE ROUNDS RECORD [tiny]

writes what it measured to RECORD as JSON; with ``memory`` and a CONTENDER in place of ROUNDS and RECORD it prints the most
memory, in MB, that this contender takes beyond what it starts with, in a process in which nobody else ran.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from benchmarks import Contender, Measured, Role, surroundings
from benchmarks._cases import CASES
from benchmarks._project import cores
from bgbias.compute import processor, vitals
from bgbias.compute.device import M_MMAP_MAX, M_TRIM_THRESHOLD, keep_freed_memory, pick
from bgbias.files.atomic import write_json

# From glibc's malloc.h and malloc.c. Its thresholds move by themselves until mallopt is called; a program that frees large
# tensors soon has the largest ones.
M_MMAP_THRESHOLD = -3
LARGEST_THRESHOLD = 32 * 2**20
DEFAULT_MMAP_MAX = 65536
# Written here, "5" lets the kernel forget the peak so far (proc(5), since Linux 4.0).
FORGET = Path("/proc/self/clear_refs")
SMALLEST = 1.0  # MB; less than that is noise


def measure(comparison: str, device: str, rounds: int, tiny: bool) -> dict[str, Any]:
    """What one comparison gave, ready for JSON."""
    case, device = CASES[comparison], pick(device)
    begun, load = datetime.now(UTC), [os.getloadavg()[0]]
    # First: processes of their own, which should not find a gigabyte of data in use beside them.
    megabytes = {}
    for name in case.memory:
        words = [sys.executable, "-m", "benchmarks._measure", comparison, device, "memory", name]
        words += ["tiny"] * tiny
        done = subprocess.run(words, env=surroundings(), check=True, stdout=subprocess.PIPE, text=True)
        megabytes[name] = float(done.stdout.split()[-1])
    contenders = list(case.contenders(device, tiny))
    seconds, results = take_turns(contenders, rounds, _finish(device), case.clock)
    missing = {c.name: c.missing for c in contenders if c.run is None}
    figures = case.judge(Measured(device, tiny, seconds, results, missing, megabytes))
    return {
        "comparison": comparison,
        "title": case.title,
        "device": device,
        "tiny": tiny,
        "rounds": rounds,
        "begun": begun.isoformat(timespec="seconds"),
        "load": [*load, os.getloadavg()[0]],
        "machine": describe_machine(device),
        "contenders": [
            {
                "name": c.name,
                "role": c.role,
                "seconds": seconds.get(c.name, []),
                "megabytes": megabytes.get(c.name),
                "missing": c.missing,
            }
            for c in contenders
        ],
        "figures": [asdict(figure) | {"values": [float(v) for v in figure.values]} for figure in figures],
    }


def take_turns(
    contenders: Sequence[Contender],
    rounds: int,
    finish: Callable[[], None] = lambda: None,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[dict[str, list[float]], dict[str, Any]]:
    """Seconds of every round, and the last result, of each contender that can run.

    They take turns, so that whatever else the machine does meanwhile befalls them all. Everyone runs once beforehand, untimed.
    Then come ``rounds`` rounds, A B C and C B A by turns. ``finish`` waits for a device that works on by itself. A peer's
    allocator hands memory back that ours keeps: where the allocator changes hands, the next one runs once untimed, whoever it
    is, so as not to pay for pages that a program of its own would still have.
    """
    able = [(c.name, c.role, c.run) for c in contenders if c.run is not None]
    seconds: dict[str, list[float]] = {name: [] for name, _, _ in able}
    results: dict[str, Any] = {}
    before = ""
    for number in range(1 + rounds):
        for name, role, run in reversed(able) if number % 2 == 0 else able:
            set_allocator(role)
            if before and (before == "peer") != (role == "peer"):
                run()
            before = role
            gc.collect()
            finish()
            begun = clock()
            results[name] = run()
            finish()
            if number > 0:
                seconds[name].append(clock() - begun)
    return seconds, results


def _finish(device: str) -> Callable[[], None]:
    """What waits until the device has done all that it was told."""
    if not device.startswith("cuda"):
        return lambda: None
    import torch

    return torch.cuda.synchronize


def set_allocator(role: Role) -> None:
    """Give a contender of this role the allocator that it would have in a program of its own; without glibc nothing happens.

    Ours let glibc keep what they free (see ``bgbias.compute.device``), which speeds up whatever runs in the same process; a peer
    is given back what glibc does by itself.
    """
    if role != "peer":
        keep_freed_memory()
        return
    with contextlib.suppress(AttributeError, OSError, TypeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(M_MMAP_MAX, DEFAULT_MMAP_MAX)
        mallopt(M_MMAP_THRESHOLD, LARGEST_THRESHOLD)
        mallopt(M_TRIM_THRESHOLD, 2 * LARGEST_THRESHOLD)


def extra_megabytes(comparison: str, contender: str, device: str, tiny: bool) -> float:
    """Of one run, after a tiny one: what libraries load when they are first called does not count."""
    for small in (True, tiny):
        chosen = next(c for c in CASES[comparison].contenders(device, small) if c.name == contender)
        assert chosen.run is not None
        set_allocator(chosen.role)
        gc.collect()
        # What was freed while the data were made is otherwise there to be used again, and would not count.
        with contextlib.suppress(AttributeError, OSError, TypeError):
            ctypes.CDLL(None).malloc_trim(0)
        before = psutil.Process().memory_info().rss / 2**20
        FORGET.write_text("5")
        chosen.run()
    return max(vitals.peak_memory_mb() - before, SMALLEST)


def describe_machine(device: str) -> dict[str, str | int]:
    """Processor, cores, threads, memory, versions, and the GPU if ``device`` is one."""
    import torch

    described: dict[str, str | int] = {
        "cpu": processor.fact("model name") or platform.processor() or platform.machine(),
        "cores": cores(),
        "threads": torch.get_num_threads(),
        "memory_gb": round(psutil.virtual_memory().total / 2**30),
        "bf16": " ".join(processor.bf16() or ()) or "no instructions",
        "python": platform.python_version(),
        "torch": torch.__version__,
    }
    return described | ({"gpu": torch.cuda.get_device_name(device)} if device.startswith("cuda") else {})


if __name__ == "__main__":
    name, where, what, target, *more = sys.argv[1:]
    is_tiny = more == ["tiny"]
    if what == "memory":
        print(extra_megabytes(name, target, where, is_tiny))
    else:
        write_json(Path(target), measure(name, where, int(what), is_tiny))
