"""Where objects truly are, and how well a mask says so: by its own area where true masks are known, else by its box.

Truths go through the geometry of the photos: resized to the model's short side, and cropped.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple, Protocol

import cv2
import numpy as np

from bgbias.errors import UserError
from bgbias.images import pixels
from bgbias.masks import quality
from bgbias.masks.grabcut import largest_part
from bgbias.photos.picture_cache import Pictures


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
    resized = pixels.resized_shape(*photo, side)
    down, across = resized[0] / photo[0], resized[1] / photo[1]
    above, before = (resized[0] - size) // 2, (resized[1] - size) // 2
    right, bottom = (left + width) * across - before, (top + height) * down - above
    moved = Box(left * across - before, top * down - above, right, bottom)
    return moved.within(Box(0, 0, size, size))


def box_of(mask: np.ndarray) -> Box:
    """The smallest box around a mask bool [H, W]; one of no area if it is empty."""
    left, top, width, height = cv2.boundingRect(mask.astype(np.uint8))
    return Box(left, top, left + width, top + height)


def box_iou(a: Box, b: Box) -> float:
    """Intersection over union of two boxes, one of which has an area."""
    shared = a.within(b).area
    return shared / (a.area + b.area - shared)


class Truth(Protocol):
    """Where the objects of a dataset are, in the crops that a model sees."""

    ids: Collection[str]
    """The photos that were asked for and whose crop shows something of a known object."""

    def iou(self, image_id: str, mask: np.ndarray) -> float:
        """Intersection over union of the object and a mask bool [S, S]."""

    def locate(self, image_id: str) -> np.ndarray:
        """The object as bool [S, S]."""

    def find(self, image_id: str) -> np.ndarray | None:
        """The same; None where it is not known."""
        return self.locate(image_id) if image_id in self.ids else None

    def area(self, image_id: str) -> float:
        """The object's share of the crop."""
        return float(self.locate(image_id).mean())


class TrueMasks(Truth):
    """Objects known pixel by pixel."""

    def __init__(self, masks: Pictures, photos: Iterable[str], size: int) -> None:
        self._masks, self._size = masks, size
        self.ids: Collection[str] = {name for name in photos if name in masks and self.locate(name).any()}

    def iou(self, image_id: str, mask: np.ndarray) -> float:
        return quality.iou(*(part.astype(np.uint8) * 255 for part in (mask, self.locate(image_id))))

    def locate(self, image_id: str) -> np.ndarray:
        return pixels.centre_crop(self._masks.get(image_id), self._size) >= quality.THRESHOLD


class TrueBoxes(Truth):
    """Objects known by their boxes: those of masks are compared with them."""

    def __init__(self, boxes: Mapping[str, Box], size: int) -> None:
        self._boxes, self._size = boxes, size
        self.ids: Collection[str] = boxes.keys()

    def iou(self, image_id: str, mask: np.ndarray) -> float:
        """As ``Truth`` says, of the two boxes; the mask's is that of its largest part."""
        return box_iou(box_of(largest_part(mask)), self._boxes[image_id])

    def locate(self, image_id: str) -> np.ndarray:
        """As ``Truth`` says: every pixel whose middle lies in the box."""
        box, middles = self._boxes[image_id], np.arange(self._size) + 0.5
        across = (middles >= box.left) & (middles < box.right)
        down = (middles >= box.top) & (middles < box.bottom)
        return down[:, None] & across

    def area(self, image_id: str) -> float:
        """As ``Truth`` says, were the object an ellipse that fills its box."""
        return math.pi / 4 * self._boxes[image_id].area / self._size**2


def mean_area(truth: Truth, photos: Iterable[str]) -> float:
    """The mean share of the crop that the objects of these photos take; if none of them is known, an error."""
    areas = [truth.area(name) for name in photos if name in truth.ids]
    if not areas:
        raise UserError(
            "No validation photo's object is known, and the size of objects is learned from these. Give photos of the"
            " validation split true masks or boxes, or set segmentation.episodes to null."
        )
    return float(np.mean(areas))
