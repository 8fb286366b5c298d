"""A masker that a test can follow: the mask is the photo's red channel, and every photo that was masked is counted."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bgbias.masks.policy import Mask
from bgbias.settings import Strict

PREDICTS = True
SPEED = ("batch_size",)
FILES: tuple[str, ...] = ()

masked: list[int] = []
interrupt_after: list[int] = []


class Params(Strict):
    """``weights`` is read by nobody; its bytes are part of what the masker is."""

    batch_size: int = 4
    inverted: bool = False
    weights: str | None = None


@dataclass
class Red:
    """Photos in, red channels out; ``masked`` gets the size of every call."""

    params: Params
    device: str

    def __call__(self, photos: Sequence[np.ndarray]) -> list[Mask]:
        masked.append(len(photos))
        if interrupt_after and len(masked) > interrupt_after[0]:
            raise KeyboardInterrupt
        reds = [255 - p[..., 0] if self.params.inverted else p[..., 0] for p in photos]
        # A confidence with all its digits, which must survive being kept.
        return [Mask(np.ascontiguousarray(r), float(np.float32(r.mean() / 255)) / 3) for r in reds]


build = Red
