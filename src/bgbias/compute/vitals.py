"""What a node's process takes of its machine while it works: processor, memory, GPU.

The process samples itself, so that it does so alike here and on a cluster's machines; its record has the samples when it ends.
"""

import csv
import io
import os
import resource
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import psutil

from bgbias.compute import gpu_slots

INTERVAL = 5.0  # seconds between two looks
COLUMNS = ("elapsed_seconds", "cpu_percent", "memory_mb", "gpu_percent", "gpu_memory_mb")


class Vitals:
    """The samples so far, a row of ``COLUMNS`` each: seconds since the beginning; per cent of one
    core since the row before (800: eight cores); resident MiB; per cent of the GPU's time, whoever
    uses it; MiB that this process holds on it. What there is none of is None.
    """

    def __init__(self) -> None:
        self.rows: list[tuple[float | None, ...]] = []
        self._begin = time.perf_counter()
        self._process = psutil.Process()
        self._process.cpu_percent()  # what is measured next is since here

    def look(self) -> None:
        """One more row."""
        elapsed = time.perf_counter() - self._begin
        memory_mb = self._process.memory_info().rss / 2**20
        used = self._process.cpu_percent()
        self.rows.append((round(elapsed, 1), used, round(memory_mb, 1), *_measure_gpu()))

    def csv(self) -> str:
        """All samples as a CSV's text."""
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows((COLUMNS, *self.rows))
        return text.getvalue()


@contextmanager
def watching(interval: float = INTERVAL) -> Iterator[Vitals]:
    """Samples while the block lasts, every ``interval`` seconds, fewer after the first hundred (``is_plotted``)."""
    vitals, is_over = Vitals(), threading.Event()

    def watch() -> None:
        for number in count(1):
            if is_over.wait(interval):
                return
            if is_plotted(number):
                vitals.look()

    watcher = threading.Thread(target=watch, name="vitals", daemon=True)
    watcher.start()
    try:
        yield vitals
    finally:
        is_over.set()
        watcher.join(timeout=1.0)


def is_plotted(number: int) -> bool:
    """Whether the look or the epoch with this number is a point of its curve: all of the first 100, then 25 a doubling; 181 of
    1,000.

    It depends on the number alone, so that a curve shown as it grows and one rebuilt later are the same.
    """
    return number < 100 or number % (4 << ((number // 100).bit_length() - 1)) == 0


def peak_memory_mb() -> float:
    """The process's largest resident size, MiB.

    The kernel's own mark of this program: what ``getrusage`` says may be the peak of the process that started it, since a child
    keeps the mark of the memory that it shared until its ``exec``.
    """
    with suppress(OSError):  # macOS has no such file
        for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM"):
                return round(int(line.split()[1]) / 1024, 1)
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit, 1)


def peak_gpu_memory_mb() -> dict[str, float]:
    """The most that this process held on its GPU, MiB; nothing where it used none."""
    cuda = _find_cuda()
    if cuda is None:
        return {}
    return {"peak_gpu_memory_mb": max(map(cuda.max_memory_allocated, range(cuda.device_count()))) / 2**20}


def _measure_gpu() -> tuple[float | None, float | None]:
    cuda = _find_cuda()
    if cuda is None:
        return None, None
    # The one in use need not be torch's current one (--device cuda:1).
    number = max(range(cuda.device_count()), key=cuda.memory_reserved)
    visible = os.environ.get(gpu_slots.VISIBLE)
    name = visible.split(",")[number] if visible else number
    output = gpu_slots.nvidia_smi(
        f"--id={name}", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits"
    )
    # A part of a split GPU has no utilization of its own: "[N/A]".
    percent = float(output) if output.strip().isdecimal() else None
    return percent, round(cuda.memory_reserved(number) / 2**20, 1)


def _find_cuda() -> Any:
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    return cuda if cuda and cuda.is_initialized() else None
