"""The machine that figures belong to."""

from __future__ import annotations

import os
import platform

from bgbias.compute import processor


def cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def describe(device: str) -> dict[str, str | int]:
    """Processor, cores, threads, memory, versions, and the GPU if ``device`` is one."""
    import psutil
    import torch

    found: dict[str, str | int] = {
        "cpu": processor.fact("model name") or platform.processor() or platform.machine(),
        "cores": cores(),
        "threads": torch.get_num_threads(),
        "memory_gb": round(psutil.virtual_memory().total / 2**30),
        "bf16": " ".join(processor.bf16() or ()) or "no instructions",
        "python": platform.python_version(),
        "torch": torch.__version__,
    }
    if device.startswith("cuda"):
        found["gpu"] = torch.cuda.get_device_name(device)
    return found
