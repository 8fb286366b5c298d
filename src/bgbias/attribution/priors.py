"""Maps that never saw a photo: a score that they reach says nothing of a model."""

import cv2
import numpy as np

from bgbias import seeds


def centre(size: int) -> np.ndarray:
    """The centre prior [size, size]: 1 in the middle, less with distance, 0 in the corners.

    People who take photos put the object into the middle: what a map does not beat, nobody needs.
    """
    places = np.linspace(-1, 1, size)
    return 1 - np.hypot(places[:, None], places) / np.sqrt(2)


def noise(size: int, key: tuple[str, str]) -> np.ndarray:
    """Noise [size, size] under a Gaussian blur of an eighth of the side: blobs, another map for each photo, 0..1."""
    drawn = seeds.generator("blurred noise", *key).normal(size=(size, size)).astype(np.float32)
    blurred = np.asarray(cv2.GaussianBlur(drawn, (0, 0), size / 8))
    return (blurred - blurred.min()) / max(float(np.ptp(blurred)), np.finfo(np.float32).tiny)
