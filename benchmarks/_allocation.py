"""Every contender has the memory allocator that it would have in a program of its own.

Ours let glibc keep what they free (see ``bgbias.compute.device``), which speeds up whatever runs in the same process; a peer is
given back what glibc does by itself.
"""

from __future__ import annotations

import contextlib
import ctypes

from benchmarks import Role
from bgbias.compute.device import M_MMAP_MAX, M_TRIM_THRESHOLD, keep_freed_memory

# From glibc's malloc.h and malloc.c. Its thresholds move by themselves until mallopt is called; a program that frees large
# tensors soon has the largest ones.
M_MMAP_THRESHOLD = -3
LARGEST_THRESHOLD = 32 * 2**20
DEFAULT_MMAP_MAX = 65536


def suit(role: Role) -> None:
    """Set the allocator for a contender of this role; where the C library is not glibc, nothing happens."""
    if role != "peer":
        keep_freed_memory()
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return
    mallopt(M_MMAP_MAX, DEFAULT_MMAP_MAX)
    mallopt(M_MMAP_THRESHOLD, LARGEST_THRESHOLD)
    mallopt(M_TRIM_THRESHOLD, 2 * LARGEST_THRESHOLD)


def give_back() -> None:
    """Hand what was freed back to the system; where the C library is not glibc, nothing happens."""
    with contextlib.suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)
