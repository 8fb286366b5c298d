"""What a node's process takes of its machine while it works: processor, memory, GPU.

The process samples itself, so that it is told alike here and on a cluster's machines. Samples lie in a small
CSV beside the running record, for whoever watches, and in the record when the node ends.
"""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

INTERVAL = 5.0  # seconds between two looks
COLUMNS = ("elapsed_seconds", "cpu_percent", "memory_mb", "gpu_percent", "gpu_memory_mb")


class Vitals:
    """The samples so far, a row of ``COLUMNS`` each: seconds since the beginning; per cent of one core since the row before
    (800: eight cores); resident MiB; per cent of the GPU's time, whoever uses it; MiB that this process holds on it. What
    there is none of is None.
    """

    def __init__(self) -> None:
        self.rows: list[tuple[float | None, ...]] = []
        self._begun = time.perf_counter()
        self._before = (0.0, time.process_time())

    def look(self) -> tuple[float | None, ...]:
        """One more row."""
        elapsed, used = time.perf_counter() - self._begun, time.process_time()
        share = 100 * (used - self._before[1]) / max(elapsed - self._before[0], 1e-9)
        self._before = (elapsed, used)
        memory_mb = round(psutil.Process().memory_info().rss / 2**20, 1)
        row = (round(elapsed, 1), round(share, 1), memory_mb, *_gpu())
        self.rows.append(row)
        return row

    def csv(self) -> str:
        """All samples as a CSV's text."""
        return "".join(map(line, (COLUMNS, *self.rows)))


@contextmanager
def watching(path: Path) -> Iterator[Vitals]:
    """Samples while the block lasts, each appended to the CSV at ``path``, which is removed afterwards."""
    vitals, over = Vitals(), threading.Event()

    def watch() -> None:
        number = 0
        while not over.wait(INTERVAL):
            number += 1
            if shown(number):
                row = line(vitals.look())
                # A full disk must not end what is worth more than its samples.
                with contextlib.suppress(OSError), path.open("a", encoding="utf-8") as file:
                    file.write(row)

    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(line(COLUMNS), encoding="utf-8")
    watcher = threading.Thread(target=watch, name="vitals", daemon=True)
    watcher.start()
    try:
        yield vitals
    finally:
        over.set()
        watcher.join(timeout=1.0)
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def shown(number: int) -> bool:
    """Whether the look or the epoch with this number is a point of its curve: all of the first 100, then 25 a doubling; 181 of
    1,000.

    It depends on the number alone, so that a curve shown as it grows and one rebuilt later are the same.
    """
    return number < 100 or number % (4 << ((number // 100).bit_length() - 1)) == 0


def line(values: tuple[Any, ...]) -> str:
    """A row of a CSV; what is None is empty."""
    return ",".join("" if v is None else str(v) for v in values) + "\n"


def _gpu() -> tuple[float | None, float | None]:
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "cuda") or not torch.cuda.is_initialized():
        return None, None
    held = round(torch.cuda.memory_reserved() / 2**20, 1)
    seen = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
    query = ["nvidia-smi", f"--id={seen}", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits"]
    try:
        said = subprocess.run(query, capture_output=True, text=True, check=True, timeout=10).stdout
        return float(said.split()[0]), held
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return None, held


def peak_memory_mb() -> float:
    """The process's largest resident size, MiB.

    The kernel's own mark of this program: what ``getrusage`` says may be the peak of the process that started it, since a child
    keeps the mark of the memory that it shared until its ``exec``.
    """
    with (
        contextlib.suppress(OSError, StopIteration),
        Path("/proc/self/status").open(encoding="utf-8") as status,
    ):
        return round(int(next(line for line in status if line.startswith("VmHWM")).split()[1]) / 1024, 1)
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit, 1)


def peak_gpu_memory_mb() -> dict[str, float]:
    """The most that this process held on its GPU, MiB; nothing where it used none."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return {}
    return {"peak_gpu_memory_mb": torch.cuda.max_memory_allocated() / 2**20}
