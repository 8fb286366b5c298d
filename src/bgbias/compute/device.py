"""Where a network runs: what was asked for, or an error; never a silent CPU."""

import contextlib
import ctypes
import os

from bgbias.compute.lazy import torch
from bgbias.errors import UserError
from bgbias.progress import say

SHARED = "BGBIAS_CELLS_PER_GPU"
# From glibc's malloc.h.
M_TRIM_THRESHOLD = -1
M_MMAP_MAX = -4


def pick(choice: str = "auto") -> str:
    """The device for ``choice``: ``auto`` takes a GPU where there is one; an absent or unknown one is an error."""
    threads = os.environ.get("OMP_NUM_THREADS")
    if threads:
        torch.set_num_threads(int(threads))
    keep_freed_memory()
    if choice == "auto" and torch.cuda.is_available():
        return "cuda"
    if choice == "auto":
        if visible := os.environ.get("CUDA_VISIBLE_DEVICES"):
            say(f"was given a GPU ({visible}), but torch sees none here: works on the processor")
        return "cpu"
    if choice == "cpu":
        return choice
    kind, colon, number = choice.partition(":")
    if kind != "cuda" or (colon and not number.isdecimal()):
        raise UserError(f"--device {choice} is unknown; there are auto, cpu, cuda, and cuda:<number>.")
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if int(number or 0) >= count:
        sees = f"{count} GPU(s), counted from 0" if count else "no GPU here"
        raise UserError(f"--device {choice} was asked for, but torch sees {sees}; use --device cpu or auto.")
    return choice


def describe(device: str) -> str:
    """The device's name for people and records."""
    if device.startswith("cuda"):
        return torch.cuda.get_device_name(device)
    threads = torch.get_num_threads()
    return f"cpu ({threads} thread{'s' if threads > 1 else ''})"


def autocast(device: str, precision: str) -> contextlib.AbstractContextManager[object]:
    """Autocast to the ``precision``: bf16 (or bfloat16) or float16; nothing otherwise."""
    kinds = {"bf16": torch.bfloat16, "bfloat16": torch.bfloat16, "float16": torch.float16}
    if precision not in kinds:
        return contextlib.nullcontext()
    return torch.autocast(torch.device(device).type, kinds[precision])


def full_precision() -> contextlib.AbstractContextManager[object]:
    """Convolutions in float32 without TF32, which a GPU would otherwise put in its place; nothing changes on a CPU."""
    return torch.backends.cudnn.flags(enabled=True, allow_tf32=False)


def threads() -> int:
    """How many threads this process was given."""
    return int(os.environ.get("OMP_NUM_THREADS") or len(os.sched_getaffinity(0)))


def shares() -> int:
    """How many processes may use one GPU; a number that is none is an error."""
    text = os.environ.get(SHARED, "1")
    if not text.isdecimal() or int(text) < 1:
        raise UserError(f"{SHARED} is '{text}'; set it to how many processes may share one GPU, 1 or more.")
    return int(text)


def keep_freed_memory() -> None:
    """Let this process keep what it frees; where the C library is not glibc, nothing happens."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return
    mallopt(M_MMAP_MAX, 0)
    mallopt(M_TRIM_THRESHOLD, 2**31 - 1)
