"""An object's silhouette on grey, filled with the texture of an object of another class: shape says one class, texture another
(cue conflict, Geirhos et al., ICLR 2019; docs/methods.md, section 9).

The texture is quilted of windows that lie wholly in the donor's object. Whether there is room for one is asked at the size that
the model sees: pictures are the same for every model that sees photos at one size and
crops them alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cv2
import numpy as np

from bgbias import seeds
from bgbias.errors import UserError
from bgbias.evaluation.conditions import QUERY_ONLY, SYMMETRIC
from bgbias.evaluation.conditions._controls import draw_donor, other_classes
from bgbias.images.composite import paste_on_grey
from bgbias.images.quilting import BLOCK, SIDE, quilt

if TYPE_CHECKING:
    from bgbias.evaluation.photos import Photo

TITLE = "the texture of another class"
NEEDS = frozenset({"masks"})
DRAWS = True
SETTINGS = (SYMMETRIC, QUERY_ONLY)
SURE = 230  # of 255: a pixel of the donor with such a mask is its object's
BLOCKS = (BLOCK, BLOCK // 2, BLOCK // 4)  # sides that are tried, in photos of 224 pixels


def donor(photo: Photo, draw: int) -> Photo:
    """A photo of another class, and not the only one of it, whose object lends its texture; see ``_find_lender``."""
    return _find_lender(photo, draw)[0]


def _find_lender(photo: Photo, draw: int) -> tuple[Photo, int, list[np.ndarray]]:
    """The donor with its ``windows``. One whose object has no room for any is struck out, and another one drawn. Raises
    UserError, naming the photo, if nobody is left.
    """
    candidates = other_classes(photo)
    while len(candidates):
        lender = draw_donor(photo, "cue_conflict", draw, candidates)
        if len(photo.split.trusted_of_class[lender.label]) > 1:
            block, squares = windows(lender)
            if squares:
                return lender, block, squares
        candidates = candidates[candidates != lender.row]
    raise UserError(
        f"Condition cue_conflict: no photo can lend '{photo.image_id}' a texture. It takes another class with two trusted masks"
        f" (docs/masks.md), and in one of these photos an object with room for {BLOCKS[-1]} of {SIDE} pixels. Add photos, or take"
        " cue_conflict out of evaluation.conditions in params.yaml."
    )


def windows(photo: Photo) -> tuple[int, list[np.ndarray]]:
    """The side of a block, and the squares uint8 [n, n, 3] of the photo's object that blocks are taken of: the largest one that
    lies in it wholly, then the largest one of what is left, as long as a block fits. None if not even the smallest block does.
    """
    sure = np.pad((photo.mask >= SURE).astype(np.uint8), 1)
    for length in BLOCKS:
        block, free, squares = max(4, round(length * len(photo.mask) / SIDE)), sure.copy(), []
        # The distance to what is no object, by steps in eight directions: of a square's middle, half its side.
        while (reach := int((steps := cv2.distanceTransform(free, cv2.DIST_C, 3)).max())) * 2 > block:
            y, x = np.unravel_index(steps.argmax(), steps.shape)
            free[y - reach + 1 : y + reach, x - reach + 1 : x + reach] = 0
            squares.append(photo.view[y - reach : y + reach - 1, x - reach : x + reach - 1])
        if squares:
            break
    return block, squares


def view(photo: Photo, draw: int) -> np.ndarray:
    """The silhouette with the donor's texture, grey around it, uint8 [S, S, 3]."""
    _, block, squares = _find_lender(photo, draw)
    left, top, width, height = cv2.boundingRect(photo.mask)
    generator = seeds.generator("cue conflict", *photo.key, draw)
    filled = np.zeros_like(photo.view)
    texture = quilt(squares, (height, width), block, max(2, block // 4), generator)
    filled[top : top + height, left : left + width] = texture
    return paste_on_grey(filled, photo.mask)
