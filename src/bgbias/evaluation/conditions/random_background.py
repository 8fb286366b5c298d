"""The object on other backgrounds (the paper's "corrupted" photos).

The picture of (dataset, split, draw, image) is a pure function of those names: the same for every model, batch size, worker count
and input size, so that models are compared on the same pictures (docs/methods.md, section 2, golden G2c).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bgbias.evaluation.conditions import QUERY_ONLY, SYMMETRIC

if TYPE_CHECKING:
    from bgbias.evaluation.photos import Photo

TITLE = "random backgrounds"
NEEDS = frozenset({"masks", "backgrounds"})
DRAWS = True
SETTINGS = (SYMMETRIC, QUERY_ONLY)


def view(photo: Photo, draw: int) -> np.ndarray:
    """The photo's object on ``background``, uint8 [S, S, 3]."""
    return photo.foreground.before(background(photo, draw))


def background(photo: Photo, draw: int) -> np.ndarray:
    """The one that the photo's key and ``draw`` name, uint8 [S, S, 3]."""
    pool = photo.split.backgrounds
    assert pool is not None  # NEEDS says so
    return pool.picture(pool.draw(photo.key, draw), photo.split.size)
