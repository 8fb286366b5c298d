"""Mask quality, on masks small enough to count by hand."""

from __future__ import annotations

import numpy as np
import pytest

from bgbias import mask_quality
from bgbias.errors import UserError


def mask(*rows: str) -> np.ndarray:
    """A mask drawn in text: '#' is 255, '.' is 0."""
    return np.array([[255 if pixel == "#" else 0 for pixel in row] for row in rows], np.uint8)


TRUTH = mask("####", "....")
HALF_RIGHT = mask("##..", "#...")  # 2 of 4 true pixels, and one false: union 5


def test_area_is_the_mean_of_the_soft_mask() -> None:
    assert mask_quality.area(np.array([[0, 51], [102, 255]], np.uint8)) == pytest.approx(0.4)


def test_overlap_counts_what_is_missed_and_iou_also_what_is_added() -> None:
    assert mask_quality.overlap(HALF_RIGHT, TRUTH) == 2 / 4
    assert mask_quality.iou(HALF_RIGHT, TRUTH) == 2 / 5
    assert mask_quality.overlap(mask("####", "####"), TRUTH) == 1
    assert mask_quality.iou(mask("####", "####"), TRUTH) == 1 / 2


def test_threshold_is_128_and_belongs_to_the_object() -> None:
    truth = mask("##")
    assert mask_quality.overlap(np.array([[127, 128]], np.uint8), truth) == 1 / 2


def test_without_true_object_overlap_is_undefined_and_iou_is_not() -> None:
    nothing = mask("....")
    assert mask_quality.overlap(nothing, nothing) is None
    assert mask_quality.iou(nothing, nothing) == 1
    assert mask_quality.iou(mask("#..."), nothing) == 0


@pytest.mark.parametrize(
    ("share", "empty", "full"),
    [(0, True, False), (0.01, False, False), (0.95, False, False), (0.96, False, True)],
)
def test_flags_masks_that_found_nothing_or_everything(share: float, empty: bool, full: bool) -> None:
    alpha = np.zeros((10, 10), np.uint8)
    alpha.flat[: round(100 * share)] = 255
    quality = mask_quality.measure(alpha, 0.5)
    assert (quality["empty"], quality["full"]) == (empty, full)


def test_compares_only_where_the_truth_is_known() -> None:
    row = {"area": 3 / 8, "confidence": 0.5, "empty": False, "full": False}
    assert mask_quality.measure(HALF_RIGHT, 0.5) == row | {"overlap": None, "iou": None}
    assert mask_quality.measure(HALF_RIGHT, 0.5, TRUTH) == row | {"overlap": 2 / 4, "iou": 2 / 5}


def test_truth_of_another_size_is_refused_by_name() -> None:
    with pytest.raises(UserError, match=r"birds/1\.jpg: the true mask is 4x2 pixels, the photo 3x2"):
        mask_quality.measure(mask("...", "..."), 0.5, TRUTH, "birds/1.jpg")
