"""Outlines in COCO's format are where they are said to be, or an error says whose they are and what is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pycocotools import mask as coco

from bgbias.errors import UserError
from bgbias.photos.coco import mask_of

HEIGHT, WIDTH = 60, 80
DISC = np.hypot(*np.mgrid[-25 : HEIGHT - 25, -50 : WIDTH - 50]) < 18
SQUARE = [[10.0, 20.0, 30.0, 20.0, 30.0, 40.0, 10.0, 40.0]]


def read(outline: Any) -> np.ndarray:
    entry = {"height": HEIGHT, "width": WIDTH}
    return mask_of({"segmentation": outline}, entry, "coco.json: '7.jpg', annotation 3,")


def runs(flat: np.ndarray) -> list[int]:
    """The lengths of runs, beginning with those that are not object."""
    ends = np.flatnonzero(np.diff(flat.astype(int))) + 1
    counts = np.diff([0, *ends, flat.size]).tolist()
    return [0, *counts] if flat[0] else counts


def compressed(mask: np.ndarray) -> dict[str, Any]:
    made = coco.encode(np.asfortranarray(mask.astype(np.uint8)))
    return {"size": list(mask.shape), "counts": made["counts"].decode()}


@pytest.mark.parametrize("mask", [DISC, ~DISC, np.zeros_like(DISC), np.ones_like(DISC)])
def test_runs_are_read_as_the_reference_writes_them(mask: np.ndarray) -> None:
    assert np.array_equal(read(compressed(mask)), mask)
    assert np.array_equal(read({"size": [HEIGHT, WIDTH], "counts": runs(mask.T.ravel())}), mask)


def test_compressed_runs_of_any_mask_are_read() -> None:
    random = np.random.default_rng(0)
    for density in (0.01, 0.3, 0.999):
        large = random.random((700, 400)) < density
        drawn = mask_of({"segmentation": compressed(large)}, {"height": 700, "width": 400}, "")
        assert np.array_equal(drawn, large)


@pytest.mark.parametrize(
    ("outline", "reason"),
    [
        ([[0.1, 0.2, 0.6, 0.2, 0.6, 0.9]], "coordinates of 0 to 1, as shares of the photo"),
        ([[v * 10 for v in SQUARE[0]]], r"reaches from \(100, 200\) to \(300, 400\), and the photo is 80x60"),
        ([[-10, 5, 20, 5, 20, 30]], r"reaches from \(-10, 5\)"),
        ([[1, 2, 3, 4]], "a polygon is one list of three points or more"),
        ([[[1, 2], [30, 4], [5, 50]]], "a polygon is one list of three points or more"),
        ([1, 2, 30, 4, 5, 50], "a polygon is one list of three points or more"),
        ([[1, 2, 30, 4, float("nan"), 50]], "a polygon is one list of three points or more"),
        ([["a", "b"]], "cannot be read"),
        ("RLE", "cannot be read"),
        ({"size": [WIDTH, HEIGHT], "counts": [4800]}, r"It is \[height, width\] in COCO's format"),
        ({"size": [HEIGHT, WIDTH + 1], "counts": [4860]}, r"has the size \[60, 81\]"),
        ({"counts": [4800]}, "has the size None"),
        ({"size": [HEIGHT, WIDTH], "counts": [4000, 10]}, "its runs sum up to 4010, and the photo has 4800"),
        ({"size": [HEIGHT, WIDTH], "counts": [4000, 900]}, "its runs sum up to 4900"),
        ({"size": [HEIGHT, WIDTH], "counts": [4000, -200, 1000]}, "its runs sum up to 4800"),
        ({"size": [HEIGHT, WIDTH], "counts": [4000.5, 799.5]}, "its runs are no whole numbers"),
        ({"size": [HEIGHT, WIDTH]}, "its runs are no whole numbers"),
        ({"size": [HEIGHT, WIDTH], "counts": runs(DISC.ravel())}, "gives stripes: its runs go along rows"),
    ],
)
def test_what_cannot_be_so_is_refused(outline: Any, reason: str) -> None:
    with pytest.raises(UserError, match=f"coco.json: '7.jpg', annotation 3,.*{reason}"):
        read(outline)


@pytest.mark.parametrize("change", [slice(None, -2), slice(0, 4), slice(2, None)])
def test_compressed_runs_that_lost_letters_are_refused(change: slice) -> None:
    outline = compressed(DISC)
    with pytest.raises(UserError, match=r"its runs sum up to \d+, and the photo has 4800 pixels"):
        read(outline | {"counts": outline["counts"][change]})


def test_compressed_runs_that_are_too_long_are_refused() -> None:
    outline = compressed(DISC)
    with pytest.raises(UserError, match="its runs sum up to"):
        read(outline | {"counts": outline["counts"] * 2})


def test_runs_along_rows_are_told_from_wide_and_high_objects() -> None:
    for bar in (np.s_[30:32, 5:75], np.s_[5:55, 40:42], np.s_[:30, :], np.s_[:, 40:]):
        mask = np.zeros((HEIGHT, WIDTH), bool)
        mask[bar] = True
        assert np.array_equal(read(compressed(mask)), mask)


def test_a_stroke_over_the_border_is_cut_off() -> None:
    assert read([[-1, -1, 20.5, -1, 20.5, 30, -1, 30]]).sum() == pytest.approx(20 * 30, abs=35)


def test_a_square_lies_where_it_was_drawn() -> None:
    expected = np.zeros((HEIGHT, WIDTH), bool)
    expected[20:40, 10:30] = True
    assert np.array_equal(read(SQUARE), expected)
