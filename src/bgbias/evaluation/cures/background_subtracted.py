"""From the embedding of a picture a part of that of its background is subtracted; the object's place is filled from around it."""

from collections.abc import Callable

import numpy as np

from bgbias.evaluation.cures._beside import TENTHS, Joined, best
from bgbias.images.inpainting import remove_object

TITLE = "background subtracted"
INDEX = "again"
FITTED = True
AT = "beside"


def apply(picture: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """The picture without its object."""
    return remove_object(picture, mask)


def fit(judge: Callable[[Joined], float]) -> Joined:
    """The weight of 0, 0.1, ..., 0.9 that ``judge`` finds best, the smallest of several. With 1 nothing would be left of a
    picture in which no object is found.
    """
    return best([Joined(1, -weight) for weight in TENTHS[:-1]], judge)
