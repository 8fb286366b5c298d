"""One comparison in a process of its own, which has its threads before any library is loaded.

    python -m benchmarks._process COMPARISON DEVICE ROUNDS RECORD [tiny]

writes what it measured to RECORD as JSON.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import Measured, surroundings
from benchmarks._bench import source
from benchmarks._machine import describe
from benchmarks._rounds import take_turns
from bgbias import plugins
from bgbias.compute.device import pick
from bgbias.files.atomic import write_json


def measure(comparison: str, device: str, rounds: int, tiny: bool) -> dict[str, Any]:
    """What one comparison gave, ready for JSON."""
    module = plugins.load("benchmarks", comparison)
    device = pick(device)
    begun, load = datetime.now(UTC), [os.getloadavg()[0]]
    # First: processes of their own, which should not find a gigabyte of data in use beside them.
    counted = getattr(module, "MEMORY", ())
    megabytes = {name: _extra_megabytes(comparison, name, device, tiny) for name in counted}
    contenders = list(module.contenders(device, tiny))
    clock = getattr(module, "CLOCK", time.perf_counter)
    seconds, results = take_turns(contenders, rounds, _finish(device), clock)
    missing = {c.name: c.missing for c in contenders if c.run is None}
    figures = module.judge(Measured(device, tiny, seconds, results, missing, megabytes))
    load.append(os.getloadavg()[0])
    return {
        "comparison": comparison,
        "source": source(comparison),
        "title": module.TITLE,
        "device": device,
        "tiny": tiny,
        "rounds": rounds,
        "begun": begun.isoformat(timespec="seconds"),
        "load": load,
        "machine": describe(device),
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


def _extra_megabytes(comparison: str, contender: str, device: str, tiny: bool) -> float:
    words = [sys.executable, "-m", "benchmarks._memory", comparison, contender, device]
    words += ["tiny"] * tiny
    done = subprocess.run(words, env=surroundings(), check=True, stdout=subprocess.PIPE, text=True)
    return float(done.stdout.split()[-1])


def _finish(device: str) -> Callable[[], None]:
    """What waits until the device has done all that it was told."""
    if not device.startswith("cuda"):
        return lambda: None
    import torch

    return torch.cuda.synchronize


if __name__ == "__main__":
    name, where, count, record, *small = sys.argv[1:]
    write_json(Path(record), measure(name, where, int(count), small == ["tiny"]))
