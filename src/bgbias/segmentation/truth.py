"""Where objects truly are, and how well a mask says so: by its own area where true masks are known, else by its box.

Truths go through the geometry of the photos: resized to the model's short side, and cropped.
"""

import math
from collections.abc import Collection, Iterable, Mapping
from typing import Protocol

import numpy as np

from bgbias.errors import UserError
from bgbias.images import pixels
from bgbias.images.boxes import Box, box_iou, box_of
from bgbias.masks import quality
from bgbias.masks.grabcut import largest_part
from bgbias.photos.prepared import Pictures


class Truth(Protocol):
    """Where the objects of a dataset are, in the crops that a model sees."""

    ids: Collection[str]
    """The photos that were asked for and whose crop shows something of a known object."""

    def iou(self, image_id: str, mask: np.ndarray) -> float:
        """Intersection over union of the object and a mask bool [S, S]."""

    def shown(self, image_id: str) -> np.ndarray:
        """The object as bool [S, S]."""

    def area(self, image_id: str) -> float:
        """The object's share of the crop."""
        return float(self.shown(image_id).mean())


class TrueMasks(Truth):
    """Objects known by their pixels."""

    def __init__(self, masks: Pictures, photos: Iterable[str], size: int) -> None:
        self._masks, self._size = masks, size
        self.ids: Collection[str] = {name for name in photos if name in masks and self.shown(name).any()}

    def iou(self, image_id: str, mask: np.ndarray) -> float:
        """As ``Truth`` says, pixel by pixel."""
        return quality.iou(_grey(mask), _grey(self.shown(image_id)))

    def shown(self, image_id: str) -> np.ndarray:
        return pixels.centre_crop(self._masks.get(image_id), self._size) >= quality.THRESHOLD


class TrueBoxes(Truth):
    """Objects known by their boxes: those of masks are compared with them."""

    def __init__(self, boxes: Mapping[str, Box], size: int) -> None:
        self._boxes, self._size = boxes, size
        self.ids: Collection[str] = boxes.keys()

    def iou(self, image_id: str, mask: np.ndarray) -> float:
        """As ``Truth`` says, of the two boxes; the mask's is that of its largest part."""
        return box_iou(box_of(largest_part(mask)), self._boxes[image_id])

    def shown(self, image_id: str) -> np.ndarray:
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
    known = [truth.area(name) for name in photos if name in truth.ids]
    if not known:
        raise UserError(
            "No validation photo's object is known, and the size of objects is learned from these. Give photos of the"
            " validation split true masks or boxes, or set segmentation.episodes to null."
        )
    return float(np.mean(known))


def _grey(mask: np.ndarray) -> np.ndarray:
    return mask.astype(np.uint8) * 255
