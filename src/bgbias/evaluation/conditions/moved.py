"""The object at another place of the frame, on its own inpainted background: what a model reads of where objects stand.

The place is uniform among those at which the object lies wholly in the frame (docs/methods.md, section 9). Along an axis on which
the frame cuts it off it stays where it is; one that fills the frame does not move, and the picture is ``own_inpainted``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bgbias import seeds
from bgbias.evaluation.conditions import QUERY_ONLY, SYMMETRIC
from bgbias.evaluation.conditions._placed import extents, place_object

if TYPE_CHECKING:
    from bgbias.evaluation.photos import Photo

TITLE = "moved on its own background"
NEEDS = frozenset({"masks", "inpainted"})
DRAWS = True
SETTINGS = (SYMMETRIC, QUERY_ONLY)


def shift(photo: Photo, draw: int) -> tuple[int, int]:
    """By how many pixels (right, down) the object moves in this draw; (0, 0) where it has no room."""
    drawn = seeds.generator("moved", *photo.key, draw).random(2)
    steps = []
    for axis, share in zip(extents(photo.mask), drawn, strict=True):
        room = axis.side - (axis.end - axis.start)
        is_cut = axis.is_cut_before or axis.is_cut_behind
        steps.append(0 if is_cut else int(share * (room + 1)) - axis.start)
    return steps[0], steps[1]


def view(photo: Photo, draw: int) -> np.ndarray:
    """The object moved by ``shift``, uint8 [S, S, 3]."""
    return place_object(photo, shift(photo, draw), len(photo.view))
