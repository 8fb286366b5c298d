"""How well a mask says where an object is: overlaps are those that a slow count finds."""

from __future__ import annotations

import numpy as np
import pytest
from naive_masks import naive_iou
from scipy import ndimage

from bgbias.masks.grabcut import largest_part
from bgbias.segmentation.truth import Box, TrueBoxes, TrueMasks


class Pictures(dict[str, np.ndarray]):
    """A gallery in memory."""


@pytest.mark.parametrize("seed", range(5))
def test_iou_of_masks_is_that_of_counted_pixels(seed: int) -> None:
    random = np.random.default_rng(seed)
    grey = random.integers(0, 256, (9, 11), dtype=np.uint8)
    mask = random.random((5, 5)) < 0.4
    truth = TrueMasks(Pictures(a=grey), ["a"], 5)  # type: ignore[arg-type]
    # The middle five rows and columns of nine and eleven; 128 and more is object.
    assert truth.iou("a", mask) == pytest.approx(naive_iou(mask, grey[2:7, 3:8] >= 128))


def test_photos_whose_crop_shows_no_object_are_not_judged() -> None:
    corner, middle = np.zeros((2, 9, 9), np.uint8)
    corner[0, 0] = middle[4, 4] = 255
    known = Pictures(corner=corner, middle=middle, not_asked_for=middle)
    assert TrueMasks(known, ["corner", "middle", "unknown"], 5).ids == {"middle"}  # type: ignore[arg-type]


def test_mask_is_judged_by_the_box_of_its_largest_part() -> None:
    truth = TrueBoxes({"a": Box(1, 1, 5, 5)}, 8)
    mask = np.zeros((8, 8), bool)
    mask[1:5, 1:5] = True
    assert truth.iou("a", mask) == 1
    mask[7, 7] = True  # a stray pixel, far away
    assert truth.iou("a", mask) == 1
    assert truth.iou("a", np.zeros((8, 8), bool)) == 0
    assert np.argwhere(truth.shown("a")).tolist() == np.argwhere(mask[:6, :6]).tolist()


@pytest.mark.parametrize("seed", range(10))
def test_largest_part_is_that_of_another_library(seed: int) -> None:
    mask = np.random.default_rng(seed).random((12, 15)) < 0.35
    parts, count = ndimage.label(mask, np.ones((3, 3)))
    areas = np.bincount(parts.ravel(), minlength=count + 1)[1:]
    found = largest_part(mask)
    assert found.sum() == areas.max()
    assert len(np.unique(parts[found])) == 1
    assert mask[found].all()


def test_nothing_has_no_largest_part() -> None:
    assert not largest_part(np.zeros((4, 4), bool)).any()
    assert largest_part(np.ones((4, 4), bool)).all()
