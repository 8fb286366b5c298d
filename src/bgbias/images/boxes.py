"""Boxes around objects: how they go through a model's resize and crop, around a mask, and how far two agree."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bgbias.images.pixels import resized_shape


class Box(NamedTuple):
    """Edges in pixels; right and bottom are where it ends."""

    left: float
    top: float
    right: float
    bottom: float

    @property
    def area(self) -> float:
        """Zero if nothing lies between the edges."""
        return max(0.0, self.right - self.left) * max(0.0, self.bottom - self.top)

    def within(self, other: Box) -> Box:
        """The part that both share; its area is zero if they share nothing."""
        return Box(*map(max, self[:2], other[:2]), *map(min, self[2:], other[2:]))


def in_crop(box: tuple[float, float, float, float], photo: tuple[int, int], side: int, size: int) -> Box:
    """What a centre crop shows of a box (left, top, width, height) in a photo of (height, width) pixels.

    The photo's short side becomes ``side`` before ``size`` x ``size`` pixels of it are cropped (``pixels.centre_crop``).
    """
    left, top, width, height = box
    resized = resized_shape(*photo, side)
    down, across = resized[0] / photo[0], resized[1] / photo[1]
    above, before = (resized[0] - size) // 2, (resized[1] - size) // 2
    right, bottom = (left + width) * across - before, (top + height) * down - above
    moved = Box(left * across - before, top * down - above, right, bottom)
    return moved.within(Box(0, 0, size, size))


def box_of(mask: np.ndarray) -> Box:
    """The smallest box around a mask bool [H, W]; one of no area if it is empty."""
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    if not len(rows):
        return Box(0, 0, 0, 0)
    return Box(float(columns[0]), float(rows[0]), float(columns[-1] + 1), float(rows[-1] + 1))


def box_iou(a: Box, b: Box) -> float:
    """Intersection over union of two boxes, one of which has an area."""
    shared = a.within(b).area
    return shared / (a.area + b.area - shared)
