"""Where objects are, how well a mask says so (overlaps are those of a slow count), and which photos are asked: by names alone."""

from __future__ import annotations

import math

import numpy as np
import pytest
from in_memory import table
from naive_masks import naive_iou
from scipy import ndimage

from bgbias.errors import UserError
from bgbias.masks.grabcut import largest_part
from bgbias.segmentation.episodes import SHOTS, draw
from bgbias.segmentation.truth import Box, TrueBoxes, TrueMasks, box_iou, in_crop, mean_area


@pytest.mark.parametrize(
    ("box", "photo", "side", "size", "expected"),
    [
        # 200 wide, 100 high: at short side 50 it is 100 x 50, and a crop of 40 begins at column 30, row 5.
        ((100, 40, 40, 40), (100, 200), 50, 40, (20, 15, 40, 35)),
        # Cut off on the left, where the crop begins at column 25.
        ((0, 0, 80, 100), (100, 200), 50, 50, (0, 0, 15, 50)),
        # 333 x 500 at short side 256: 384 columns (384.38 rounded down), crop 227 from column 78, row 14.
        ((250, 100, 50, 30), (333, 500), 256, 227, (114, 62.876876876876, 152.4, 85.939939939939)),
    ],
)
def test_box_goes_through_resize_and_crop(
    box: tuple[float, ...], photo: tuple[int, int], side: int, size: int, expected: tuple[float, ...]
) -> None:
    assert tuple(in_crop(box, photo, side, size)) == pytest.approx(expected)  # type: ignore[arg-type]
    assert in_crop((0, 0, 20, 100), (100, 200), 50, 50).area == 0  # beside the crop


@pytest.mark.parametrize(
    ("box", "other", "expected"),
    [
        ((0, 0, 2, 2), (1, 1, 3, 3), 1 / 7),  # a quarter of each is shared
        ((0, 0, 1, 1), (4, 4, 5, 6), 0),
        ((0, 0, 6, 4), (1, 2, 3, 3), 2 / 24),  # one lies in the other
    ],
)
def test_iou_of_boxes_by_hand(box: tuple[float, ...], other: tuple[float, ...], expected: float) -> None:
    assert box_iou(Box(*box), Box(*other)) == pytest.approx(expected)


def test_iou_of_masks_is_that_of_counted_pixels_and_crops_without_object_are_not_judged() -> None:
    random = np.random.default_rng(0)
    grey = random.integers(0, 256, (9, 11), dtype=np.uint8)
    mask = random.random((5, 5)) < 0.4
    truth = TrueMasks({"a": grey}, ["a"], 5)  # type: ignore[arg-type]
    # The middle five rows and columns of nine and eleven; 128 and more is object.
    assert truth.iou("a", mask) == pytest.approx(naive_iou(mask, grey[2:7, 3:8] >= 128))
    corner = np.zeros((9, 9), np.uint8)
    corner[0, 0] = 255
    known = {"corner": corner, "middle": np.full((9, 9), 255, np.uint8), "not_asked_for": grey}
    assert TrueMasks(known, ["corner", "middle", "unknown"], 5).ids == {"middle"}  # type: ignore[arg-type]


def test_mask_is_judged_by_the_box_of_its_largest_part() -> None:
    truth = TrueBoxes({"a": Box(1, 1, 5, 5)}, 8)
    mask = np.zeros((8, 8), bool)
    mask[1:5, 1:5] = True
    assert truth.iou("a", mask) == 1
    mask[7, 7] = True  # a stray pixel, far away
    assert truth.iou("a", mask) == 1
    assert truth.iou("a", np.zeros((8, 8), bool)) == 0
    assert np.argwhere(truth.locate("a")).tolist() == np.argwhere(mask[:6, :6]).tolist()


def test_size_of_objects_is_learned_from_known_ones() -> None:
    truth = TrueBoxes({"a": Box(0, 0, 10, 10), "b": Box(5, 5, 15, 25)}, 50)
    # An ellipse in a box takes pi/4 of it: of 100 and of 200 pixels of 2,500.
    expected = math.pi / 4 * (100 + 200) / 2 / 2500
    assert mean_area(truth, ["a", "b", "unknown"]) == pytest.approx(expected)
    with pytest.raises(UserError, match="No validation photo's object is known"):
        mean_area(truth, ["unknown"])


def test_largest_part_is_that_of_another_library() -> None:
    mask = np.random.default_rng(0).random((12, 15)) < 0.35
    parts, count = ndimage.label(mask, np.ones((3, 3)))
    areas = np.bincount(parts.ravel(), minlength=count + 1)[1:]
    found = largest_part(mask)
    assert found.sum() == areas.max()
    assert len(np.unique(parts[found])) == 1
    assert mask[found].all()
    assert not largest_part(np.zeros((4, 4), bool)).any()


# Episodes.


def classes(*sizes: int) -> dict[str, int]:
    return {f"{label}/{n}": label for label, size in enumerate(sizes) for n in range(size)}


PHOTOS = classes(8, 9, 6, 5, 4)


def test_every_photo_with_enough_others_is_tested_once_with_supports_of_the_right_class() -> None:
    drawn = draw(table(PHOTOS), PHOTOS, 100)
    for episode in drawn:
        own = PHOTOS[episode.test]
        assert {PHOTOS[name] for name in episode.positives} == {own}
        (other,) = {PHOTOS[name] for name in episode.negatives}
        assert other != own
        assert len(set(episode.photos)) == 1 + 2 * SHOTS == len(episode.photos)
    assert sorted(e.test for e in drawn) == [name for name, label in PHOTOS.items() if label <= 2]
    # Five photos support, though none of them can be tested; four do neither.
    assert {PHOTOS[name] for episode in drawn for name in episode.negatives} == {0, 1, 2, 3}


def test_episodes_depend_on_names_alone() -> None:
    """Photos of unknown objects support, and are not tested."""
    drawn = draw(table(PHOTOS), PHOTOS, 100)
    assert draw(table(dict(reversed(PHOTOS.items()))), list(PHOTOS), 100) == drawn
    assert draw(table(PHOTOS), PHOTOS, 7) == drawn[:7]
    assert [e.test for e in drawn] != sorted(e.test for e in drawn)
    judged = [name for name, label in PHOTOS.items() if label == 1]
    assert draw(table(PHOTOS), judged, 100) == [e for e in drawn if e.test in judged]


@pytest.mark.parametrize("photos", [classes(5, 5), classes(9, 4)], ids=["nobody left", "no other class"])
def test_too_few_photos_are_an_error(photos: dict[str, int]) -> None:
    with pytest.raises(UserError, match="no episode to draw: it takes a test photo"):
        draw(table(photos), photos, 3)
