"""The object cut out and put back in front of its own background: what cutting and pasting cost by themselves.

The background's hole is filled from around it, as it has to be for every other control; the object is cut and blended as it is in
front of any background.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bgbias.evaluation.conditions import QUERY_ONLY, SYMMETRIC

if TYPE_CHECKING:
    from bgbias.evaluation.photos import Photo

TITLE = "its own background, inpainted"
NEEDS = frozenset({"masks", "inpainted"})
DRAWS = False
SETTINGS = (SYMMETRIC, QUERY_ONLY)


def view(photo: Photo, draw: int) -> np.ndarray:
    """The object in front of its own filled background, uint8 [S, S, 3]."""
    return photo.foreground.before(photo.surroundings)
