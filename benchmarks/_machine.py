"""The machine that figures belong to."""

from __future__ import annotations

import os
import platform
from pathlib import Path

# What decides how fast a network is in 16 bits on a CPU.
SHORT_NUMBERS = ("avx512_bf16", "amx_bf16")


def cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def describe(device: str) -> dict[str, str | int]:
    """Processor, cores, threads, memory, versions, and the GPU if ``device`` is one."""
    import psutil
    import torch

    flags = _cpuinfo("flags").split()
    found: dict[str, str | int] = {
        "cpu": _cpuinfo("model name") or platform.processor() or platform.machine(),
        "cores": cores(),
        "threads": torch.get_num_threads(),
        "memory_gb": round(psutil.virtual_memory().total / 2**30),
        "bf16": " ".join(flag for flag in SHORT_NUMBERS if flag in flags) or "no instructions",
        "python": platform.python_version(),
        "torch": torch.__version__,
    }
    if device.startswith("cuda"):
        found["gpu"] = torch.cuda.get_device_name(device)
    return found


def _cpuinfo(key: str) -> str:
    """What Linux says of the first core; empty elsewhere."""
    path = Path("/proc/cpuinfo")
    for line in path.read_text().splitlines() if path.exists() else ():
        name, _, value = line.partition(":")
        if name.strip() == key:
            return value.strip()
    return ""
