"""The object on the backgrounds of ``random_background``, cut out as two segmentation models see it (docs/methods.md,
section 17).

Of audits alone (``auditing/masker.py``): a study has one mask of each photo.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from bgbias.evaluation.conditions import QUERY_ONLY, random_background
from bgbias.images.composite import CutOut

if TYPE_CHECKING:
    from bgbias.evaluation.photos import Photo

NEEDS = frozenset({"masks", "backgrounds", "second_masks"})
DRAWS = True
SETTINGS = (QUERY_ONLY,)


def _member(title: str, doc: str, together: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> dict[str, Any]:
    def view(photo: Photo, draw: int) -> np.ndarray:
        cut_out = CutOut(photo.view, together(photo.mask, photo.second_mask))
        return cut_out.before(random_background.background(photo, draw))

    return {"TITLE": title, "__doc__": doc, "view": view}


MEMBERS = {
    "either_mask": _member(
        "what either mask shows, on random backgrounds",
        "What either segmentation model takes for the object, on random backgrounds: what one of them saw is not cut off.",
        np.maximum,
    ),
    "both_masks": _member(
        "what both masks show, on random backgrounds",
        "What both segmentation models take for the object, on random backgrounds: what one of them left out is gone.",
        np.minimum,
    ),
}
