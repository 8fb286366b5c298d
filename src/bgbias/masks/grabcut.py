"""GrabCut from an attention map: the object's edge is sought in the photo's colours (Rother et al. 2004, OpenCV's code).

A map says where an object probably is, and its few places know no edges. GrabCut learns colours of what is taken for certain, one
way or the other, and divides the rest so that colours fit and the cut runs along edges. Maps differ in how they are spread, which
says nothing of where they point: so what is certain is told by shares of the photo's area, not by a map's values.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import cv2
import numpy as np
from PIL import Image

from bgbias.compute.device import threads
from bgbias.images import pixels
from bgbias.masks.policy import Mask

cv2.setNumThreads(threads())  # or it would take every core
COLOURS = 5  # that GrabCut learns of either side; it cannot from fewer pixels


def segment(photo: np.ndarray, attention: np.ndarray, area: float, sure: float, rounds: int) -> np.ndarray:
    """The object as bool [H, W], from a photo uint8 [H, W, 3] and a map [H, W], whose brightest places are an object of ``area``.

    The brightest share ``sure`` of these stays object, the darkest of the others stays background. ``area``: a share of the
    photo. A map that leaves one side (next to) no place is its own answer.
    """
    likely = brightest(attention, area)
    if min(likely.sum(), (~likely).sum()) < COLOURS:
        return likely
    labels = np.where(likely, cv2.GC_PR_FGD, cv2.GC_PR_BGD).astype(np.uint8)
    labels[brightest(attention, sure * area)] = cv2.GC_FGD
    labels[darkest(attention, likely, sure)] = cv2.GC_BGD
    nowhere, (back, front) = (0, 0, 0, 0), np.zeros((2, 1, 65))
    cv2.setRNGSeed(0)  # it clusters colours from a random start, whatever ran before
    image, how = np.ascontiguousarray(photo), cv2.GC_INIT_WITH_MASK
    cv2.grabCut(image, labels, nowhere, back, front, rounds, how)
    return np.isin(labels, (cv2.GC_FGD, cv2.GC_PR_FGD))


def brightest(attention: np.ndarray, share: float) -> np.ndarray:
    """The places [H, W] of the highest values, ``share`` of all; none where the map is 0, and more where values are equal."""
    return (attention >= np.quantile(attention, 1 - share)) & (attention > 0)


def darkest(attention: np.ndarray, likely: np.ndarray, share: float) -> np.ndarray:
    """The places [H, W] of the lowest values outside ``likely``, ``share`` of those. Among equals, and many are 0 in a map, the
    farthest from ``likely`` come first.
    """
    away = cv2.distanceTransform((~likely).astype(np.uint8), cv2.DIST_L2, cv2.DIST_MASK_PRECISE)
    order = np.lexsort((-away.ravel(), attention.ravel(), likely.ravel()))
    chosen = np.zeros(attention.size, bool)
    chosen[order[: round(share * (~likely).sum())]] = True
    return chosen.reshape(attention.shape)


def largest_part(mask: np.ndarray) -> np.ndarray:
    """The largest connected part (also across corners) of a mask bool [H, W]; the first of equals, nothing of nothing."""
    count, parts, facts, _ = cv2.connectedComponentsWithStats(mask.astype(np.uint8), connectivity=8)
    if count < 2:
        return mask
    return parts == 1 + np.argmax(facts[1:, cv2.CC_STAT_AREA])


@dataclass(frozen=True)
class GrabCutMasker:
    """Photos in, masks out, by nearness to the middle: an object of ``area`` is sought at short side ``side``, in ``rounds``."""

    area: float
    sure: float
    rounds: int
    side: int
    device = "cpu"

    def __call__(self, photos: Sequence[np.ndarray]) -> list[Mask]:
        """One mask per RGB photo (uint8 [H, W, 3], any sizes), in order."""
        with ThreadPoolExecutor(threads()) as pool:
            return list(pool.map(self._mask, photos))

    def _mask(self, photo: np.ndarray) -> Mask:
        height, width = photo.shape[:2]
        small = pixels.resize_short(photo, min(self.side, height, width))
        # Nearness to the middle, in half sides: 1 there, 0 in the corners.
        down, right = (np.linspace(-1, 1, length) for length in small.shape[:2])
        middle = 1 - np.hypot(down[:, None], right) / np.sqrt(2)
        parts = largest_part(segment(small, middle, self.area, self.sure, self.rounds))
        mask = Image.fromarray(parts).resize((width, height), Image.Resampling.NEAREST)
        return Mask(np.where(np.asarray(mask), np.uint8(255), np.uint8(0)), 1.0)  # it knows no doubt
