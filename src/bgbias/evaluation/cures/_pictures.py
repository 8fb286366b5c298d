"""Cures that make another picture of each, which goes through the model anew.

It stands in the picture's place (``picture``), or beside it (``beside``): its embedding is then added to the picture's or
subtracted from it, by a weight that is fitted.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np

from bgbias.images import pixels
from bgbias.images.composite import CutOut, paste_on_grey
from bgbias.images.inpainting import remove_object

INDEX = "again"
FITTED = False
AT = "picture"
OF_THE_SIDE = 8  # the blur's standard deviation is so small a part of the picture's side
MARGIN = 0.1  # of the box's longer side, on each side
TENTHS = tuple(n / 10 for n in range(11))


def blur_background(picture: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """The object on the picture itself under a Gaussian blur: colours stay, shapes go."""
    # With bytes OpenCV takes several times as long, and loses up to one level.
    background = cv2.GaussianBlur(picture.astype(np.float32), (0, 0), len(picture) / OF_THE_SIDE)
    return CutOut(picture, mask).before(np.round(background).astype(np.uint8))


def crop_to_object(picture: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """The smallest square around the box of what the mask says is object (above one half), with a margin, moved to lie within
    the picture, at the picture's size; the whole picture if there is no such pixel. No seam is made.
    """
    side = len(picture)
    rows, columns = (np.flatnonzero((mask > 127).any(axis=axis)) for axis in (1, 0))
    if not len(rows):
        return picture
    longer = max(np.ptp(rows), np.ptp(columns)) + 1
    length = min(side, int(np.ceil(longer * (1 + 2 * MARGIN))))
    left, top = (
        int(np.clip(round((span[0] + span[-1] + 1 - length) / 2), 0, side - length))
        for span in (columns, rows)
    )
    box = pixels.RelativeBox(left / side, top / side, length / side, length / side)
    return pixels.crop(picture, box, side, flip=False)


@dataclass(frozen=True)
class Joined:
    """``of_picture`` times the embeddings of pictures plus ``of_second`` times those of second ones, at unit length again.

    With ``of_second`` 0 it is the embeddings of pictures, bit for bit.
    """

    of_picture: float
    of_second: float

    @property
    def weight(self) -> float:
        """How much of second pictures' embeddings is added or subtracted."""
        return abs(self.of_second)

    def __call__(self, pictures: np.ndarray, seconds: np.ndarray) -> np.ndarray:
        """Unit vectors [n, d] in the type of ``pictures`` [n, d]; ``seconds`` [n, d]."""
        if self.of_second == 0:
            return pictures
        joined = self.of_picture * pictures + self.of_second * seconds
        return (joined / np.linalg.norm(joined, axis=1, keepdims=True)).astype(pictures.dtype)


def join(of_picture: Callable[[float], float], sign: int, weights: tuple[float, ...]) -> dict[str, Any]:
    """A cure ``beside`` the picture, with the weight of these that ``judge`` finds best, the first of several."""

    def fit(judge: Callable[[Joined], float]) -> Joined:
        return max((Joined(of_picture(weight), sign * weight) for weight in weights), key=judge)

    return {"AT": "beside", "FITTED": True, "fit": fit}


MEMBERS: dict[str, dict[str, Any]] = {
    "grey": {"TITLE": "grey background", "apply": paste_on_grey},
    "blurred": {"TITLE": "blurred background", "apply": blur_background},
    "cropped": {"TITLE": "crop to the object", "apply": crop_to_object},
    # The crop has the weight, the picture the rest: what surrounds the object counts less.
    "fused": {
        "TITLE": "fused with the crop to the object",
        "apply": crop_to_object,
        **join(lambda weight: 1 - weight, 1, TENTHS),
    },
    # A part of the background's embedding is subtracted. With all of it nothing would be left of a picture in which no object is
    # found.
    "background_subtracted": {
        "TITLE": "background subtracted",
        "apply": remove_object,
        **join(lambda weight: 1, -1, TENTHS[:-1]),
    },
}
