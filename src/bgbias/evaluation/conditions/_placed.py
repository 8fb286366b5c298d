"""The object at another place or size on its own background (docs/methods.md, section 9).

An object that the frame cuts off stays at that edge: anywhere else its cut would show, as it never does in ``own_inpainted``,
with which these pictures are compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import cv2
import numpy as np
from PIL import Image

from bgbias.images.composite import CutOut

if TYPE_CHECKING:
    from bgbias.evaluation.photos import Photo


class Extent(NamedTuple):
    """Along one axis of a view of ``side`` pixels: where the object (mask above one half) begins and ends, and its centroid, in
    pixels from the edge. All of the axis where no pixel is object.
    """

    start: int
    end: int
    middle: float
    side: int

    @property
    def is_cut_before(self) -> bool:
        return self.start == 0

    @property
    def is_cut_behind(self) -> bool:
        return self.end == self.side


def extents(mask: np.ndarray) -> tuple[Extent, Extent]:
    """Across and down, of a mask uint8 [S, S]."""
    inside = (mask > 127).astype(np.uint8)
    side = len(mask)
    if not inside.any():
        return (Extent(0, side, side / 2, side),) * 2
    left, top, width, height = cv2.boundingRect(inside)
    of_mass = cv2.moments(inside, binaryImage=True)
    # OpenCV counts from the middle of the first pixel.
    across, down = (of_mass[name] / of_mass["m00"] + 0.5 for name in ("m10", "m01"))
    return Extent(left, left + width, across, side), Extent(top, top + height, down, side)


def place_object(photo: Photo, corner: tuple[int, int], side: int) -> np.ndarray:
    """The object of the photo at ``side`` x ``side`` pixels with its left upper corner at ``corner`` (across, down), on the
    background of the photo as it was: uint8 [S, S, 3].
    """
    layers = []
    for layer in (photo.view, photo.mask):
        resized = Image.fromarray(layer).resize((side, side), Image.Resampling.BILINEAR)
        canvas = Image.new(resized.mode, layer.shape[1::-1])
        canvas.paste(resized, corner)
        layers.append(np.asarray(canvas))
    return CutOut(*layers).before(photo.surroundings)
