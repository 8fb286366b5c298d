"""Where a network runs: what was asked for, or an error; never a silent CPU."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from bgbias.errors import UserError

if TYPE_CHECKING:
    import contextlib


def pick(wanted: str = "auto") -> str:
    """The device for ``wanted``: ``auto`` takes a GPU where there is one; a GPU that is asked for and absent is an error."""
    import torch

    threads = os.environ.get("OMP_NUM_THREADS")
    if threads:
        torch.set_num_threads(int(threads))
    if wanted == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if wanted.startswith("cuda") and not torch.cuda.is_available():
        raise UserError(f"--device {wanted} was asked for, but torch sees no GPU here; use --device cpu or auto.")
    return wanted


def describe(device: str) -> str:
    """The device's name for people and records."""
    import torch

    return torch.cuda.get_device_name(device) if device.startswith("cuda") else f"cpu ({torch.get_num_threads()} threads)"


def autocast(device: str, precision: str) -> contextlib.AbstractContextManager[object]:
    """bf16 autocast where ``precision`` says so, nothing otherwise."""
    import torch

    return torch.autocast(torch.device(device).type, torch.bfloat16, enabled=precision == "bf16")
