"""One comparison, in a process of its own, which has its threads before any library is loaded."""

import contextlib
import ctypes
import gc
import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import torch

from benchmarks import CASES, Figure, Measured, Run, _project, prepare
from bgbias.compute import processor, vitals
from bgbias.compute.device import M_MMAP_MAX, M_TRIM_THRESHOLD, keep_freed_memory, pick
from bgbias.files.atomic import write_json

# What glibc does by itself (malloc.h and malloc.c). Its thresholds move until mallopt is called; a program that frees large
# tensors soon has the largest ones.
LARGEST_THRESHOLD = 32 * 2**20
M_MMAP_THRESHOLD = -3
USUAL = {
    M_MMAP_MAX: 65536,
    M_MMAP_THRESHOLD: LARGEST_THRESHOLD,
    M_TRIM_THRESHOLD: 2 * LARGEST_THRESHOLD,
}
SMALLEST = 1.0  # MB; less than that is noise


def measure(name: str, device: str, rounds: int, tiny: bool, path: str) -> None:
    """Write the record of a comparison, JSON."""
    comparison, device = CASES[name], pick(device)
    begun, load = datetime.now(UTC), os.getloadavg()[0]
    # First: processes of their own, which should not find a gigabyte of data in use beside them.
    megabytes = {}
    for who in comparison.memory:
        code = f"from benchmarks._measure import extra_megabytes; print(extra_megabytes(*{name, who, device, tiny}))"
        megabytes[who] = float(_project.run(Path.cwd(), "-c", code).split()[-1])
    case = prepare(name, device, tiny)
    runs = [(who, role, run) for who, (role, run) in case.contenders.items() if not isinstance(run, str)]
    missing = {who: run for who, (_, run) in case.contenders.items() if isinstance(run, str)}
    finish = torch.cuda.synchronize if device.startswith("cuda") else lambda: None
    seconds, results = take_turns(runs, rounds, finish, getattr(time, comparison.clock))
    measured = Measured(seconds, results, megabytes)
    record = {
        "comparison": name,
        "title": comparison.title,
        "device": device,
        "tiny": tiny,
        "rounds": rounds,
        "begun": begun.isoformat(timespec="seconds"),
        "load": [load, os.getloadavg()[0]],
        "machine": describe_machine(device),
        "contenders": [
            {
                "name": who,
                "role": role,
                "seconds": seconds.get(who, []),
                "megabytes": megabytes.get(who),
                "missing": missing.get(who, ""),
            }
            for who, (role, _) in case.contenders.items()
        ],
        "figures": [evaluate(figure, measured, missing) for figure in case.figures],
    }
    write_json(Path(path), record)


def take_turns(
    runs: Sequence[tuple[str, str, Run]],
    rounds: int,
    finish: Callable[[], None] = lambda: None,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[dict[str, list[float]], dict[str, Any]]:
    """Seconds of every round, and the last result, of each contender: its name, role and run.

    They take turns, so that whatever else the machine does meanwhile befalls them all. Everyone runs once beforehand, untimed.
    Then come ``rounds`` rounds, A B C and C B A by turns. ``finish`` waits for a device that works on by itself. A peer's
    allocator hands memory back that ours keeps: where the allocator changes hands, the next one runs once untimed, whoever it
    is, so as not to pay for pages that a program of its own would still have.
    """
    seconds: dict[str, list[float]] = {name: [] for name, _, _ in runs}
    results: dict[str, Any] = {}
    before = ""
    for number in range(1 + rounds):
        for name, role, run in reversed(runs) if number % 2 == 0 else runs:
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


def evaluate(figure: Figure, measured: Measured, missing: Mapping[str, str]) -> dict[str, Any]:
    """A figure with its values; without any where a contender that it needs is missing."""
    try:
        values: Any = figure.values(measured) if callable(figure.values) else figure.values
    except KeyError as error:
        if error.args[0] not in missing:
            raise
        return vars(figure) | {"values": [], "missing": missing[error.args[0]]}
    return vars(figure) | {"values": np.atleast_1d(values).astype(float).tolist(), "missing": ""}


def set_allocator(role: str) -> None:
    """Give a contender of this role the allocator that it would have in a program of its own; without glibc nothing happens.

    Ours let glibc keep what they free (see ``bgbias.compute.device``), which speeds up whatever runs in the same process.
    """
    if role != "peer":
        keep_freed_memory()
        return
    with contextlib.suppress(AttributeError, OSError, TypeError):
        mallopt = ctypes.CDLL(None).mallopt
        for option, value in USUAL.items():
            mallopt(option, value)


def extra_megabytes(comparison: str, contender: str, device: str, tiny: bool) -> float:
    """The most memory, in MB, that one run takes beyond what it starts with, in a process in which nobody else ran. It follows a
    tiny one: what libraries load when they are first called does not count.
    """
    for is_small in (True, tiny):
        role, run = prepare(comparison, device, is_small).contenders[contender]
        assert not isinstance(run, str)
        set_allocator(role)
        gc.collect()
        # What was freed while the data were made is otherwise there to be used again, and would not count.
        with contextlib.suppress(AttributeError, OSError, TypeError):
            ctypes.CDLL(None).malloc_trim(0)
        before = psutil.Process().memory_info().rss / 2**20
        # The kernel forgets the peak so far (proc(5), since Linux 4.0).
        Path("/proc/self/clear_refs").write_text("5")
        run()
    return max(vitals.peak_memory_mb() - before, SMALLEST)


def describe_machine(device: str) -> dict[str, str | int]:
    """Processor, cores, threads, memory, versions, and the GPU if ``device`` is one."""
    described: dict[str, str | int] = {
        "cpu": processor.fact("model name") or platform.processor() or platform.machine(),
        "cores": _project.CORES,
        "threads": torch.get_num_threads(),
        "memory_gb": round(psutil.virtual_memory().total / 2**30),
        "bf16": " ".join(processor.bf16() or ()) or "no instructions",
        "python": platform.python_version(),
        "torch": torch.__version__,
    }
    return described | ({"gpu": torch.cuda.get_device_name(device)} if device.startswith("cuda") else {})
