"""The processor: how a command shares it with others, and what Linux tells of it; elsewhere nothing is known.

How soon waiting threads sleep, and how many there are in a container, is said in the environment, which OpenMP reads once,
when it is loaded; what it says already stays as it is. How threads wait changes no result's bits; how many there are may.
"""

import math
import os
from pathlib import Path

# How often a thread of OpenMP (GCC's, as in torch's wheels) looks for new work before it sleeps. By default, it looks for
# milliseconds: an audit with two threads took three times as long as with one beside two other processes on two cores. This
# often, it took as long, and passes through a network with nothing beside them were as fast as by default.
SPINS = "5000"
CGROUP = Path("/sys/fs/cgroup")
CPUINFO = Path("/proc/cpuinfo")
# Instructions that multiply bf16, of Intel's and AMD's processors and of ARM's.
BF16 = ("avx512_bf16", "amx_bf16", "bf16")


def share() -> None:
    """Have threads that wait for each other soon give way to other processes, and be no more than the container's cores."""
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", SPINS)
    granted = quota()
    if granted is not None and granted < len(os.sched_getaffinity(0)):
        os.environ.setdefault("OMP_NUM_THREADS", str(granted))


def quota(cgroup: Path = CGROUP) -> int | None:
    """The cores' worth of time that this process's container may take, rounded up; None where there is no limit."""
    try:
        if (cgroup / "cpu.max").exists():
            limit, period = (cgroup / "cpu.max").read_text(encoding="utf-8").split()
        else:
            limit, period = (
                (cgroup / "cpu" / f"cpu.cfs_{part}_us").read_text(encoding="utf-8")
                for part in ("quota", "period")
            )
        return math.ceil(int(limit) / int(period)) if int(limit) > 0 else None
    except (OSError, ValueError):  # no container's, or "max"
        return None


def fact(key: str, cpuinfo: Path = CPUINFO) -> str:
    """What it says of the first core under ``key``; empty where it says nothing."""
    for line in cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.exists() else ():
        name, _, value = line.partition(":")
        if name.strip() == key:
            return value.strip()
    return ""


def bf16(cpuinfo: Path = CPUINFO) -> tuple[str, ...] | None:
    """Its instructions for bf16; without any, torch emulates them, many times slower than float32. None: not known."""
    flags = (fact("flags", cpuinfo) or fact("Features", cpuinfo)).split()
    return tuple(name for name in BF16 if name in flags) if flags else None
