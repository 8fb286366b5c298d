"""The object on the backgrounds of ``random_background``, cut out as two segmentation models see it (docs/methods.md,
section 17).

Of audits alone (``auditing/mask_range.py``): a study has one mask of each photo.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from bgbias.evaluation.conditions import QUERY_ONLY, random_background
from bgbias.images.composite import CutOut

if TYPE_CHECKING:
    from bgbias.evaluation.photos import Photo

NEEDS = frozenset({"masks", "backgrounds", "second_masks"})
DRAWS = True
SETTINGS = (QUERY_ONLY,)


def view(photo: Photo, draw: int, together: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> np.ndarray:
    """The object by both masks ``together``, on the draw's background, uint8 [S, S, 3]."""
    cut_out = CutOut(photo.view, together(photo.mask, photo.second_mask))
    return cut_out.before(random_background.background(photo, draw))


MEMBERS = {
    "either_mask": {
        "__doc__": "What either segmentation model takes for the object, on random backgrounds:"
        " what one of them saw is not cut off.",
        "TITLE": "what either mask shows, on random backgrounds",
        "view": partial(view, together=np.maximum),
    },
    "both_masks": {
        "__doc__": "What both segmentation models take for the object, on random backgrounds:"
        " what one of them left out is gone.",
        "TITLE": "what both masks show, on random backgrounds",
        "view": partial(view, together=np.minimum),
    },
}
