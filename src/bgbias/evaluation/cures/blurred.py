"""The background becomes a blur: colours stay, shapes go."""

from __future__ import annotations

import numpy as np

from bgbias.images.composite import CutOut

TITLE = "blurred background"
INDEX = "again"
FITTED = False
AT = "picture"
OF_THE_SIDE = 8  # the blur's standard deviation is so small a part of the picture's side


def apply(picture: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """The object in front of the picture itself under a Gaussian blur."""
    import cv2

    # With bytes OpenCV takes several times as long, and loses up to one level.
    blurred = cv2.GaussianBlur(picture.astype(np.float32), (0, 0), len(picture) / OF_THE_SIDE)
    return CutOut(picture, mask).before(np.round(blurred).astype(np.uint8))
