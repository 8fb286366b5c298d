"""The object on other backgrounds (the paper's "corrupted" photos).

The picture of (dataset, split, draw, image) is a pure function of those names: the same for every model, batch size, worker count
and input size, so that models are compared on the same pictures (docs/methods.md, section 2, golden G2c).

On the same backgrounds, audits also put objects as two segmentation models together see them (section 17); a study has one mask
of each photo.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from bgbias.evaluation.conditions import QUERY_ONLY, SYMMETRIC
from bgbias.images.composite import CutOut

if TYPE_CHECKING:
    from bgbias.evaluation.photos import Photo

TITLE = "random backgrounds"
NEEDS = frozenset({"masks", "backgrounds"})
DRAWS, BATCHED = True, True
SETTINGS = (SYMMETRIC, QUERY_ONLY)


def view(photo: Photo, draw: int) -> np.ndarray:
    """The photo's object on the draw's background, uint8 [S, S, 3]."""
    return photo.foreground.before(photo.background(draw))


def view_by_two(
    photo: Photo, draw: int, together: Callable[[np.ndarray, np.ndarray], np.ndarray]
) -> np.ndarray:
    """The object by both masks ``together``, on the draw's background, uint8 [S, S, 3]."""
    cut_out = CutOut(photo.view, together(photo.mask, photo.second_mask))
    return cut_out.before(photo.background(draw))


BY_TWO: dict[str, Any] = {"BATCHED": False, "NEEDS": NEEDS | {"second_masks"}, "SETTINGS": (QUERY_ONLY,)}
MEMBERS = {
    "either_mask": {
        "__doc__": "What either segmentation model takes for the object, on random backgrounds:"
        " what one of them saw is not cut off.",
        "TITLE": "what either mask shows, on random backgrounds",
        "view": partial(view_by_two, together=np.maximum),
        **BY_TWO,
    },
    "both_masks": {
        "__doc__": "What both segmentation models take for the object, on random backgrounds:"
        " what one of them left out is gone.",
        "TITLE": "what both masks show, on random backgrounds",
        "view": partial(view_by_two, together=np.minimum),
        **BY_TWO,
    },
}
