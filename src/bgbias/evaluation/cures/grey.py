"""The background becomes grey: what is not there cannot mislead."""

import numpy as np

from bgbias.images.composite import on_grey

TITLE = "grey background"
INDEX = "again"
FITTED = False
AT = "picture"


def apply(picture: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """The object on grey (127.5), rounded."""
    return on_grey(picture, mask)
