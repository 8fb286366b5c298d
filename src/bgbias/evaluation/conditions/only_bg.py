"""The background alone, the object's place filled from around it (after Xiao et al. 2021: Only-BG-T)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bgbias.evaluation.conditions import QUERY_ONLY, SYMMETRIC

if TYPE_CHECKING:
    from bgbias.evaluation.photos import Photo

TITLE = "the background alone"
NEEDS = frozenset({"masks", "inpainted"})
DRAWS = False
SETTINGS = (SYMMETRIC, QUERY_ONLY)


def view(photo: Photo, draw: int) -> np.ndarray:
    """The photo without its object, uint8 [S, S, 3]."""
    return photo.surroundings
