"""Mask quality, on masks small enough to count by hand."""

import numpy as np
import pytest

from bgbias.errors import UserError
from bgbias.masks import quality as mask_quality


def mask(*rows: str) -> np.ndarray:
    """A mask drawn in text: '#' is 255, '.' is 0."""
    return np.array([[255 if pixel == "#" else 0 for pixel in row] for row in rows], np.uint8)


TRUTH = mask("####", "....")
HALF_RIGHT = mask("##..", "#...")  # 2 of 4 true pixels, and one false: union 5


def test_area_overlap_and_iou_are_what_a_hand_counts() -> None:
    assert mask_quality.area(np.array([[0, 51], [102, 255]], np.uint8)) == pytest.approx(0.4)
    assert mask_quality.overlap(HALF_RIGHT, TRUTH) == 2 / 4
    assert mask_quality.iou(HALF_RIGHT, TRUTH) == 2 / 5
    # 128 belongs to the object.
    assert mask_quality.overlap(np.array([[127, 128]], np.uint8), mask("##")) == 1 / 2
    nothing = mask("....")
    assert mask_quality.overlap(nothing, nothing) is None
    # Nothing was found where nothing is: no merit, and no fault.
    assert np.isnan(mask_quality.iou(nothing, nothing))
    assert mask_quality.iou(mask("#..."), nothing) == 0
    soft = np.array([[200, 100, 0, 0], [60, 40, 0, 0]], np.uint8)
    assert mask_quality.off_object(soft, TRUTH) == (60 + 40) / 400
    assert mask_quality.off_object(mask("....", "...."), TRUTH) is None


def test_compares_only_where_the_truth_is_known_and_flags_what_found_nothing_or_everything() -> None:
    row = {"area": 3 / 8, "confidence": 0.5, "clarity": 1.0, "empty": False, "full": False}
    unknown = {"overlap": None, "iou": None, "off_object": None}
    known = {"overlap": 2 / 4, "iou": 2 / 5, "off_object": 1 / 3}
    assert mask_quality.measure(HALF_RIGHT, 0.5) == row | unknown
    assert mask_quality.measure(HALF_RIGHT, 0.5, TRUTH) == row | known
    with pytest.raises(UserError, match=r"birds/1\.jpg: the true mask is 4x2 pixels, the photo 3x2"):
        mask_quality.measure(mask("...", "..."), 0.5, TRUTH, "birds/1.jpg")
    for percent, empty, full in ((0, True, False), (1, False, False), (95, False, False), (96, False, True)):
        alpha = np.zeros((10, 10), np.uint8)
        alpha.flat[:percent] = 255
        quality = mask_quality.measure(alpha, 0.5)
        assert (quality["empty"], quality["full"]) == (empty, full)


def test_clarity_is_that_of_one_piece_without_doubt() -> None:
    mask = np.zeros((20, 20), np.uint8)
    assert mask_quality.clarity(mask) == 0
    mask[:10, :10] = 255
    assert mask_quality.clarity(mask) == 1
    apart, grey = mask.copy(), mask.copy()
    apart[15:, 15:] = 255  # 25 pixels beside 100
    assert mask_quality.clarity(apart) == pytest.approx(0.8)
    grey[10:, 10:] = 51  # a fifth
    assert mask_quality.clarity(grey) == pytest.approx((100 + 100 * 0.04) / (100 + 100 * 0.2))
    assert np.isnan(mask_quality.measure(mask, float("nan"))["clarity"])


def test_masks_that_show_no_object_are_told_apart() -> None:
    for mask, fault in (
        (np.zeros((90, 70), np.uint8), "nothing"),
        (np.full((90, 70), 120, np.uint8), "nothing"),
        (np.full((90, 70), 255, np.uint8), "everything"),
        (np.random.default_rng(0).integers(0, 256, (64, 64), np.uint8), "noise"),
        (np.kron(np.eye(2, dtype=np.uint8), np.full((40, 40), 255, np.uint8)), ""),
    ):
        assert mask_quality.fault(mask) == fault
