"""The most memory that one contender takes beyond what it starts with, in a process in which nobody else ran.

    python -m benchmarks._memory COMPARISON CONTENDER DEVICE [tiny]

prints it in MB.
"""

from __future__ import annotations

import gc
import sys
from pathlib import Path

from benchmarks._allocation import give_back, suit
from bgbias import plugins

# Written here, "5" lets the kernel forget the peak so far (proc(5), since Linux 4.0).
FORGET = Path("/proc/self/clear_refs")
SMALLEST = 1.0  # MB; less than that is noise


def extra_megabytes(comparison: str, contender: str, device: str, tiny: bool) -> float:
    """Of one run, after a tiny one: what libraries load when they are first called does not count."""
    module = plugins.load("benchmarks", comparison)
    for small in (True, tiny):
        chosen = next(c for c in module.contenders(device, small) if c.name == contender)
        suit(chosen.role)
        gc.collect()
        # What was freed while the data were made is otherwise there to be used again, and would not count.
        give_back()
        before = _memory("VmRSS")
        FORGET.write_text("5")
        chosen.run()
    return max(_memory("VmHWM") - before, SMALLEST)


def _memory(field: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(f"{field}:"))) / 1024


if __name__ == "__main__":
    comparison, contender, device, *small = sys.argv[1:]
    print(extra_megabytes(comparison, contender, device, small == ["tiny"]))
