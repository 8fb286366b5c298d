"""Whether a photo has an obvious foreground, told by a saliency mask: what makes it unfit as a background.

The background-bias paper looked at 200 photos by hand. Here a photo is unfit if the masker sees something, is sure where it ends,
and it does not run along the photo's border as walls, floors and skies do. What U²-Net-p rejects of the
paper's own photos, and of photos with an object in them (birds, cars, products), stands in docs/results/backgrounds.md.
"""

from dataclasses import dataclass

import numpy as np

from bgbias.masks.policy import Mask

SALIENT, SURE, POSSIBLE = 0.5, 0.9, 0.1
SMALLEST, LARGEST = 0.01, 0.95
SHARPEST_BACKGROUND = 0.5
LONGEST_BORDER = 0.25


@dataclass(frozen=True)
class Foreground:
    """What the saliency of a photo tells, each as a share in 0..1.

    ``confidence``: the highest saliency; ``area``: of salient pixels; ``sharpness``: of surely among possibly salient ones;
    ``border``: of the photo's border that is salient.
    """

    confidence: float
    area: float
    sharpness: float
    border: float

    @property
    def obvious(self) -> bool:
        """Whether there is an object that nobody would take for a background."""
        return (
            SMALLEST <= self.area <= LARGEST
            and self.sharpness >= SHARPEST_BACKGROUND
            and self.border <= LONGEST_BORDER
        )


def look(mask: Mask) -> Foreground:
    """The foreground in a photo by its mask, whose stretch to full range is undone by its confidence."""
    saliency = mask.alpha.astype(np.float32) * np.float32(mask.confidence / 255)
    salient = saliency >= SALIENT
    border = np.concatenate([salient[0], salient[-1], salient[1:-1, 0], salient[1:-1, -1]])
    possible = int((saliency > POSSIBLE).sum())
    return Foreground(
        confidence=float(mask.confidence),
        area=float(salient.mean()),
        sharpness=float((saliency > SURE).sum() / possible) if possible else 0.0,
        border=float(border.mean()),
    )
