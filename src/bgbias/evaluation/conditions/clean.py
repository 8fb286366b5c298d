"""The photo as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bgbias.evaluation.conditions import SYMMETRIC

if TYPE_CHECKING:
    from bgbias.evaluation.photos import Photo

TITLE = "clean"
NEEDS: frozenset[str] = frozenset()
DRAWS, BATCHED = False, True
SETTINGS = (SYMMETRIC,)


def view(photo: Photo, draw: int) -> np.ndarray:
    """The centre crop, uint8 [S, S, 3]."""
    return photo.view
