"""The object at another place or size on its own inpainted background (docs/methods.md, section 9).

An object that the frame cuts off stays at that edge: anywhere else its cut would show, as it never does in ``own_inpainted``,
with which these pictures are compared.

``moved``: the place is uniform among those at which the object lies wholly in the frame. Along an axis on which the frame cuts it
off it stays where it is; one that fills the frame does not move, and the picture is ``own_inpainted``.

``scaled``: the factor is log-uniform in 0.5 to 1.5, as far as an object that lies wholly in the frame stays in it. It grows or
shrinks about its centroid; where the frame cuts it off, from that edge. One that is cut off at opposite edges does not shrink,
and can grow beyond them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import cv2
import numpy as np
from PIL import Image

from bgbias import seeds
from bgbias.evaluation.conditions import QUERY_ONLY, SYMMETRIC
from bgbias.images.composite import CutOut

if TYPE_CHECKING:
    from bgbias.evaluation.photos import Photo

NEEDS = frozenset({"masks", "inpainted"})
DRAWS = True
SETTINGS = (SYMMETRIC, QUERY_ONLY)
LEAST, MOST = 0.5, 1.5  # of ``scaled``


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


def shift(photo: Photo, draw: int) -> tuple[int, int]:
    """By how many pixels (right, down) the object moves in this draw; (0, 0) where it has no room."""
    drawn = seeds.generator("moved", *photo.key, draw).random(2)
    steps = []
    for axis, share in zip(extents(photo.mask), drawn, strict=True):
        room = axis.side - (axis.end - axis.start)
        is_cut = axis.is_cut_before or axis.is_cut_behind
        steps.append(0 if is_cut else int(share * (room + 1)) - axis.start)
    return steps[0], steps[1]


def view_moved(photo: Photo, draw: int) -> np.ndarray:
    """The object moved by ``shift``, uint8 [S, S, 3]."""
    return place_object(photo, shift(photo, draw), len(photo.view))


def factor(photo: Photo, draw: int) -> float:
    """How many times as long the object becomes in this draw."""
    bounds = [_bounds(axis) for axis in extents(photo.mask)]
    least, most = max(low for low, _ in bounds), min(high for _, high in bounds)
    share = seeds.generator("scaled", *photo.key, draw).random()
    return least * math.exp(share * math.log(most / least))


def _fixed(axis: Extent) -> float:
    """What stays where it is along an axis."""
    if axis.is_cut_before == axis.is_cut_behind:
        return axis.middle
    return 0 if axis.is_cut_before else axis.side


def _bounds(axis: Extent) -> tuple[float, float]:
    """The smallest and the largest factor along an axis."""
    if axis.is_cut_before and axis.is_cut_behind:
        return 1, MOST
    fixed, most = _fixed(axis), MOST
    if axis.start:
        most = min(most, fixed / (fixed - axis.start))
    if axis.end < axis.side:
        most = min(most, (axis.side - fixed) / (axis.end - fixed))
    return LEAST, most


def view_scaled(photo: Photo, draw: int) -> np.ndarray:
    """The object times ``factor``, to the next whole pixel of the photo's side, uint8 [S, S, 3]."""
    side = len(photo.view)
    length = round(side * factor(photo, draw))
    across, down = (round(_fixed(axis) * (1 - length / side)) for axis in extents(photo.mask))
    return place_object(photo, (across, down), length)


MEMBERS = {
    "moved": {
        "__doc__": "The object at another place of the frame, on its own inpainted background:"
        " what a model reads of where objects stand.",
        "TITLE": "moved on its own background",
        "view": view_moved,
    },
    "scaled": {
        "__doc__": "The object smaller or larger, on its own inpainted background: what a model reads of how large objects are.",
        "TITLE": "another size on its own background",
        "view": view_scaled,
    },
}
