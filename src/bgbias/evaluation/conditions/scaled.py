"""The object smaller or larger, on its own inpainted background: what a model reads of how large objects are.

The factor is log-uniform in 0.5 to 1.5, as far as an object that lies wholly in the frame stays in it (docs/methods.md,
section 9). It grows or shrinks about its centroid; where the frame cuts it off, from that edge. One that is cut off at opposite
edges does not shrink, and can grow beyond them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from bgbias import seeds
from bgbias.evaluation.conditions import QUERY_ONLY, SYMMETRIC
from bgbias.evaluation.conditions._placed import Extent, extents, place_object

if TYPE_CHECKING:
    from bgbias.evaluation.photos import Photo

TITLE = "another size on its own background"
NEEDS = frozenset({"masks", "inpainted"})
DRAWS = True
SETTINGS = (SYMMETRIC, QUERY_ONLY)
LEAST, MOST = 0.5, 1.5


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


def view(photo: Photo, draw: int) -> np.ndarray:
    """The object times ``factor``, to the next whole pixel of the photo's side, uint8 [S, S, 3]."""
    side = len(photo.view)
    length = round(side * factor(photo, draw))
    across, down = (round(_fixed(axis) * (1 - length / side)) for axis in extents(photo.mask))
    return place_object(photo, (across, down), length)
