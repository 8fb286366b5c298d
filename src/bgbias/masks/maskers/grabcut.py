"""GrabCut from the middle of the photo: a masker without a network, by colours alone (Rother et al. 2004).

What people photograph stands in the middle. Worse than a trained net, and wrong about other photos than it: for asking whether a
result depends on the masker. Its masks are black and white.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image
from pydantic import Field

from bgbias.compute.device import threads
from bgbias.images import pixels
from bgbias.settings import Strict

if TYPE_CHECKING:
    from bgbias.masks.policy import Mask

PREDICTS = True
SPEED: tuple[str, ...] = ()
FILES: tuple[str, ...] = ()


class Params(Strict):
    """What is taken for granted of a photo before its colours are looked at."""

    area: float = Field(0.35, gt=0, lt=1, description="the object's share of the photo, in its middle")
    sure: float = Field(0.33, gt=0, lt=1, description="share of either side that colours cannot change")
    rounds: int = Field(5, ge=1, description="of GrabCut")
    side: int = Field(256, ge=32, description="short side in pixels at which colours are looked at")


class GrabCutMasker:
    """Photos in, masks out, photo by photo."""

    device = "cpu"

    def __init__(self, params: Params) -> None:
        self._params = params

    def __call__(self, photos: Sequence[np.ndarray]) -> list[Mask]:
        """One mask per RGB photo (uint8 [H, W, 3], any sizes), in order."""
        with ThreadPoolExecutor(threads()) as pool:
            return list(pool.map(self._mask, photos))

    def _mask(self, photo: np.ndarray) -> Mask:
        from bgbias.masks.grabcut import largest_part, segment
        from bgbias.masks.policy import Mask

        params = self._params
        small = pixels.resize_short(photo, min(params.side, *photo.shape[:2]))
        # Nearness to the middle, in half sides: 1 there, 0 in the corners.
        down, right = (np.linspace(-1, 1, side) for side in small.shape[:2])
        middle = 1 - np.hypot(down[:, None], right) / np.sqrt(2)
        parts = largest_part(segment(small, middle, params.area, params.sure, params.rounds))
        height, width = photo.shape[:2]
        mask = Image.fromarray(parts).resize((width, height), Image.Resampling.NEAREST)
        return Mask(np.where(np.asarray(mask), np.uint8(255), np.uint8(0)), 1.0)  # it knows no doubt


def build(params: Params, device: str) -> GrabCutMasker:
    """The masker; it works on the processor, whatever the device."""
    return GrabCutMasker(params)
