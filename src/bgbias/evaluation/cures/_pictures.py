"""The picture is changed outside of its object, and goes through the model anew."""

import numpy as np

from bgbias.images import pixels
from bgbias.images.composite import CutOut, paste_on_grey

INDEX = "again"
FITTED = False
AT = "picture"
OF_THE_SIDE = 8  # the blur's standard deviation is so small a part of the picture's side
MARGIN = 0.1  # of the box's longer side, on each side


def blur_background(picture: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """The object on the picture itself under a Gaussian blur: colours stay, shapes go."""
    import cv2

    # With bytes OpenCV takes several times as long, and loses up to one level.
    behind = cv2.GaussianBlur(picture.astype(np.float32), (0, 0), len(picture) / OF_THE_SIDE)
    return CutOut(picture, mask).before(np.round(behind).astype(np.uint8))


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


MEMBERS = {
    "grey": {"TITLE": "grey background", "apply": paste_on_grey},
    "blurred": {"TITLE": "blurred background", "apply": blur_background},
    "cropped": {"TITLE": "crop to the object", "apply": crop_to_object},
}
