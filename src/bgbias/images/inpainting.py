"""The object taken out of its photo, and the hole filled from around it: what stands behind it, as far as that can be guessed.

Telea's fast marching (2004), OpenCV's code: it is quick, has no weights, and invents no new things, as learned inpainting does.
"""

import cv2
import numpy as np

cv2.setNumThreads(1)  # or it would take every core; photos are worked on side by side
GROWN = 7  # pixels that the hole is larger than the object, so that nothing of its rim is left
RADIUS = 3  # pixels around each one that it is filled from
GREY = 128


def hole(mask: np.ndarray) -> np.ndarray:
    """What is taken out, bool [H, W]: where the mask uint8 [H, W] is more object than not, and ``GROWN`` pixels around it."""
    outside = (mask <= 127).astype(np.uint8)
    if outside.all():
        return np.zeros(mask.shape, bool)
    return np.asarray(cv2.distanceTransform(outside, cv2.DIST_L2, cv2.DIST_MASK_PRECISE) <= GROWN)


def remove_object(photo: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """The photo uint8 [H, W, 3] with the hole of its mask uint8 [H, W] filled; grey if there is nothing to fill it from."""
    region = hole(mask)
    if region.all():
        return np.full_like(photo, GREY)
    return np.asarray(cv2.inpaint(photo, region.astype(np.uint8), RADIUS, cv2.INPAINT_TELEA))
