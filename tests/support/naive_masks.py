"""Naive twins of what is computed of masks."""

from __future__ import annotations

import numpy as np


def naive_iou(a: np.ndarray, b: np.ndarray) -> float:
    """Pixel by pixel."""
    both = either = 0
    for row in range(a.shape[0]):
        for column in range(a.shape[1]):
            both += bool(a[row, column] and b[row, column])
            either += bool(a[row, column] or b[row, column])
    return both / either
