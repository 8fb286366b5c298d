"""GrabCut from the middle of the photo: a masker without a network, by colours alone (Rother et al. 2004).

What people photograph stands in the middle. Worse than a trained net, and wrong about other photos than it: for asking whether a
result depends on the masker. Its masks are black and white.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from bgbias.settings import Strict

if TYPE_CHECKING:
    from bgbias.masks.grabcut import GrabCutMasker

PREDICTS = True
SPEED: tuple[str, ...] = ()
FILES: tuple[str, ...] = ()


class Params(Strict):
    """What is taken for granted of a photo before its colours are looked at."""

    area: float = Field(0.35, gt=0, lt=1, description="the object's share of the photo, in its middle")
    sure: float = Field(0.33, gt=0, lt=1, description="share of either side that colours cannot change")
    rounds: int = Field(5, ge=1, description="of GrabCut")
    side: int = Field(256, ge=32, description="short side in pixels at which colours are looked at")


def build(params: Params, device: str) -> GrabCutMasker:
    """The masker; it works on the processor, whatever the device."""
    from bgbias.masks.grabcut import GrabCutMasker

    return GrabCutMasker(**params.model_dump())
