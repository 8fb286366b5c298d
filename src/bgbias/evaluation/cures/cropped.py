"""The picture is cut down to the object's surroundings: no seam is made, and what is left of the background stays."""

from __future__ import annotations

import numpy as np

from bgbias.images import pixels

TITLE = "crop to the object"
INDEX = "again"
FITTED = False
AT = "picture"
MARGIN = 0.1  # of the box's longer side, on each side


def apply(picture: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """The smallest square around the box of what the mask says is object (above one half), with a margin, moved to lie within
    the picture, at the picture's size; the whole picture if there is no such pixel.
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
