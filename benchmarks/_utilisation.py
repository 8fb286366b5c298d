"""How busy a GPU is, as nvidia-smi tells it: the share of the time in which anything ran on it."""

from __future__ import annotations

import atexit
import os
import subprocess
import threading
import time
from collections.abc import Sequence

EVERY = 200  # milliseconds
# The driver tells of the time before it is asked; what lies before the work does not count.
LOOKS_BACK = 1.0  # seconds


class Utilisation:
    """Samples from now to the end of the process; where there are none to be had, ``missing`` says why."""

    def __init__(self, device: str) -> None:
        self.missing = ""
        self._samples: list[tuple[float, float]] = []
        if not device.startswith("cuda"):
            self.missing = "a GPU is needed"
            return
        query = ["--query-gpu=utilization.gpu", "--format=csv,noheader,nounits", f"--loop-ms={EVERY}"]
        try:
            asked = subprocess.Popen(
                ["nvidia-smi", f"--id={_known_as(device)}", *query], stdout=subprocess.PIPE, text=True
            )
        except OSError:
            self.missing = "nvidia-smi, which tells it, is not found on the PATH"
            return
        atexit.register(asked.terminate)
        threading.Thread(target=self._listen, args=(asked,), daemon=True).start()

    def between(self, begin: float, end: float) -> Sequence[float]:
        """Per cent, sample by sample, of work that began and ended then (``time.perf_counter``)."""
        return [value for at, value in self._samples if begin + LOOKS_BACK <= at <= end]

    def _listen(self, asked: subprocess.Popen[str]) -> None:
        assert asked.stdout is not None
        for line in asked.stdout:
            if line.strip().isdecimal():
                self._samples.append((time.perf_counter(), float(line)))
        self.missing = f"nvidia-smi, which tells it, ended with code {asked.wait()}"


def _known_as(device: str) -> str:
    """What nvidia-smi calls a GPU of torch's."""
    number = int(device.partition(":")[2] or 0)
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return visible.split(",")[number] if visible else str(number)
