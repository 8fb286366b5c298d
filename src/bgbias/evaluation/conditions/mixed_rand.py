"""The object in front of the background of a photo of some other class (Xiao et al. 2021: Mixed-Rand)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bgbias.evaluation import donors
from bgbias.evaluation.conditions import QUERY_ONLY, SYMMETRIC

if TYPE_CHECKING:
    from bgbias.evaluation.photos import Photo

TITLE = "backgrounds of other classes"
NEEDS = frozenset({"masks", "inpainted"})
DRAWS = True
SETTINGS = (SYMMETRIC, QUERY_ONLY)


def donor(photo: Photo, draw: int) -> Photo:
    """A photo of another class, whose surroundings it is put in front of."""
    return donors.drawn(photo, "mixed_rand", draw, donors.other_classes(photo))


def view(photo: Photo, draw: int) -> np.ndarray:
    """The object in front of the surroundings of a photo of another class, uint8 [S, S, 3]."""
    return photo.foreground.before(donor(photo, draw).surroundings)
