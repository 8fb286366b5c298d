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
WIDE = np.broadcast_to(np.arange(HEIGHT)[:, None] < 30, (HEIGHT, WIDTH))  # runs along rows would be like it
NOISE = [np.random.default_rng(0).random((700, 400)) < density for density in (0.01, 0.3, 0.999)]
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


@pytest.mark.parametrize("mask", [DISC, ~DISC, np.zeros_like(DISC), np.ones_like(DISC), WIDE, *NOISE])
def test_runs_are_read_as_the_reference_writes_them(mask: np.ndarray) -> None:
    for written in (compressed(mask), {"size": [*mask.shape], "counts": runs(mask.T.ravel())}):
        entry = {"height": mask.shape[0], "width": mask.shape[1]}
        assert np.array_equal(mask_of({"segmentation": written}, entry, ""), mask)


@pytest.mark.parametrize(
    ("outline", "reason"),
    [
        ([[0.1, 0.2, 0.6, 0.2, 0.6, 0.9]], "coordinates of 0 to 1, as shares of the photo"),
        ([[v * 10 for v in SQUARE[0]]], r"reaches from \(100, 200\) to \(300, 400\), and the photo is 80x60"),
        ([[1, 2, 3, 4]], "a polygon is one list of three points or more"),
        ([[1, 2, 30, 4, float("nan"), 50]], "a polygon is one list of three points or more"),
        ([["a", "b"]], "cannot be read"),
        ({"size": [WIDTH, HEIGHT], "counts": [4800]}, r"It is \[height, width\] in COCO's format"),
        ({"size": [HEIGHT, WIDTH + 1], "counts": [4860]}, r"has the size \[60, 81\]"),
        ({"counts": [4800]}, "has the size None"),
        ({"size": [HEIGHT, WIDTH], "counts": [4000, 10]}, "its runs sum up to 4010, and the photo has 4800"),
        ({"size": [HEIGHT, WIDTH], "counts": [4000, -200, 1000]}, "its runs sum up to 4800"),
        ({"size": [HEIGHT, WIDTH]}, "its runs are no whole numbers"),
        ({"size": [HEIGHT, WIDTH], "counts": runs(DISC.ravel())}, "gives stripes: its runs go along rows"),
    ],
)
def test_what_cannot_be_so_is_refused(outline: Any, reason: str) -> None:
    with pytest.raises(UserError, match=f"coco.json: '7.jpg', annotation 3,.*{reason}"):
        read(outline)


def test_compressed_runs_that_lost_letters_or_are_too_long_are_refused() -> None:
    outline = compressed(DISC)
    letters = outline["counts"]
    for counts in (letters[:-2], letters[:4], letters[2:], letters * 2):
        with pytest.raises(UserError, match=r"its runs sum up to \d+, and the photo has 4800 pixels"):
            read(outline | {"counts": counts})


def test_a_polygon_lies_where_it_was_drawn_and_is_cut_off_at_the_border() -> None:
    expected = np.zeros((HEIGHT, WIDTH), bool)
    expected[20:40, 10:30] = True
    assert np.array_equal(read(SQUARE), expected)
    assert read([[-1, -1, 20.5, -1, 20.5, 30, -1, 30]]).sum() == pytest.approx(20 * 30, abs=35)
