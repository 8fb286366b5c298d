"""Work that outlives a kill: arrays in files that are mapped into memory.

A row counts when all of it is there. A machine that lost its power may have lost rows; delete the files then.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np


def _find_memmap(path: Path, kind: type, shape: tuple[int, ...]) -> np.ndarray | None:
    with suppress(OSError, ValueError):
        there = np.lib.format.open_memmap(path, mode="r+")
        if there.dtype == kind and there.shape == shape:
            return there
    return None


def _make_memmap(path: Path, kind: type, shape: tuple[int, ...]) -> np.ndarray:
    """An array of zeros in a file."""
    partial = path.with_suffix(".partial")
    np.lib.format.open_memmap(partial, mode="w+", dtype=kind, shape=shape)
    # A full disk is told now, and not by a signal when a page finds no room.
    with partial.open("r+b") as file:
        os.posix_fallocate(file.fileno(), 0, partial.stat().st_size)
    partial.replace(path)
    return np.lib.format.open_memmap(path, mode="r+")


def count_missing(folder: Path, name: str, rows: int) -> int:
    """How many rows of ``ResumableRows`` are missing: all where there is no file of it, and none is made."""
    try:
        return int((np.load(folder / f"{name}-there.npy", mmap_mode="r", allow_pickle=False) == 0).sum())
    except (OSError, ValueError, EOFError):
        return rows


class ResumableRows:
    """An array of this ``shape`` that is filled row by row, ``name`` in ``folder``; ``rows[3] = value`` puts one there for good,
    ``rows[[3, 4]] = values`` several at once. Rows lie along an ``axis`` of the file, and along the first one of ``values``.
    """

    def __init__(self, folder: Path, name: str, kind: type, shape: tuple[int, ...], axis: int = 0) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        files = (
            (folder / f"{name}.npy", kind, shape),
            (folder / f"{name}-there.npy", np.uint8, (shape[axis],)),
        )
        values, there = (_find_memmap(*file) for file in files)
        if values is None or there is None:  # of another array, whose rows say nothing of this one's
            values, there = (_make_memmap(*file) for file in files)
        self.values, self._there = np.moveaxis(values, axis, 0), there

    @property
    def missing(self) -> list[int]:
        """Rows that are to be made."""
        return np.flatnonzero(self._there == 0).tolist()

    def __setitem__(self, rows: int | Sequence[int], values: Any) -> None:
        self.values[rows] = values
        self._there[rows] = 1
