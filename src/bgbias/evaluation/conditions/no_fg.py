"""The photo with grey in the object's place (Xiao et al. 2021: No-FG). The silhouette is left, and tells what stood there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bgbias.evaluation.conditions import QUERY_ONLY, SYMMETRIC
from bgbias.images.composite import on_grey

if TYPE_CHECKING:
    from bgbias.evaluation.photos import Photo

TITLE = "no object"
NEEDS = frozenset({"masks"})
DRAWS = False
SETTINGS = (SYMMETRIC, QUERY_ONLY)


def view(photo: Photo, draw: int) -> np.ndarray:
    """The photo with grey in the place of its object, uint8 [S, S, 3]."""
    return on_grey(photo.view, 255 - photo.mask)
