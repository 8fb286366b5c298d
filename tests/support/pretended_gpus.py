"""Surroundings in which nvidia-smi lists GPUs that are not there."""

from __future__ import annotations

import os
from pathlib import Path

from project import ROOT

from bgbias.compute import gpu_slots

H200 = "GPU {n}: NVIDIA H200 (UUID: GPU-{n}{n}{n}{n}-aa)"


def environment(folder: Path, listed: str | None, status: int = 0) -> dict[str, str]:
    """Surroundings in which nvidia-smi lists these GPUs (None: there is no nvidia-smi)."""
    tools = folder / "tools"
    tools.mkdir(exist_ok=True)
    if listed is not None:
        (tools / "listed").write_text(listed + "\n", encoding="utf-8")
        smi = tools / "nvidia-smi"
        smi.write_text(f'#!/bin/sh\n[ "$*" = -L ] && /bin/cat {tools}/listed; exit {status}\n')
        smi.chmod(0o755)
    plain = {k: v for k, v in os.environ.items() if k != gpu_slots.VISIBLE}
    return plain | {"PATH": str(tools), "PYTHONPATH": str(ROOT / "src")}
