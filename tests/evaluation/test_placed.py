"""Objects at another place or size on their own background: where they stand, how large they are, and who loses by it."""

import math

import numpy as np
import pytest
from in_memory import split
from scipy.ndimage import center_of_mass

from bgbias import plugins
from bgbias.evaluation.conditions import _placed
from bgbias.evaluation.photos import Photo

SIDE = 64
DRAWS = range(12)
# Rows and columns [top, bottom, left, right] of an object, and what is true of it.
WITHIN, AT_THE_LEFT = (20, 34, 12, 40), (20, 34, 0, 28)
ACROSS, EVERYWHERE = (20, 34, 0, SIDE), (0, SIDE, 0, SIDE)


def box(top: int, bottom: int, left: int, right: int) -> np.ndarray:
    mask = np.zeros((SIDE, SIDE), np.uint8)
    mask[top:bottom, left:right] = 255
    return mask


def photo(mask: np.ndarray) -> Photo:
    """A red object on a blue gradient, which lies behind it as well."""
    behind = np.zeros((SIDE, SIDE, 3), np.uint8)
    behind[..., 2] = np.arange(SIDE)
    shown = np.where(mask[..., None] > 0, np.uint8([255, 0, 0]), behind)
    return split([shown], [0], SIDE, [mask], filled=[behind]).photo(0)


def seen(picture: np.ndarray) -> np.ndarray:
    """Where the object is, bool [S, S]: at a rim that was resized, half of a colour that is half background."""
    return picture[..., 0] > 63


def test_an_object_is_moved_as_a_whole_to_any_place_that_the_frame_has() -> None:
    own = photo(box(*WITHIN))
    shifts = {_placed.shift(own, draw) for draw in range(2000)}
    # 28 columns and 14 rows wide, at column 12 and row 20.
    assert {right for right, _ in shifts} == set(range(-12, SIDE - 40 + 1))
    assert {down for _, down in shifts} == set(range(-20, SIDE - 34 + 1))
    for draw in DRAWS:
        right, down = _placed.shift(own, draw)
        expected = own.surroundings.copy()
        expected[20 + down : 34 + down, 12 + right : 40 + right] = own.view[20:34, 12:40]
        np.testing.assert_array_equal(_placed.view_moved(own, draw), expected)


def test_one_that_the_frame_cuts_off_stays_at_that_edge() -> None:
    shifts = [_placed.shift(photo(box(*AT_THE_LEFT)), draw) for draw in DRAWS]
    assert {right for right, _ in shifts} == {0}
    assert len({down for _, down in shifts}) > 1
    empty = box(0, 0, 0, 0)
    assert _placed.extents(empty) == (_placed.Extent(0, SIDE, SIDE / 2, SIDE),) * 2
    for filling in (photo(box(*EVERYWHERE)), photo(empty)):
        own = plugins.load("conditions", "own_inpainted").view(filling, 0)
        np.testing.assert_array_equal(_placed.view_moved(filling, 0), own)


def test_an_object_is_scaled_about_its_centroid_and_stays_in_the_frame() -> None:
    triangle = np.tril(box(*WITHIN), -8)
    own = photo(triangle)
    before, area = center_of_mass(triangle), (triangle > 0).sum()
    factors = [_placed.factor(own, draw) for draw in DRAWS]
    for draw, factor in enumerate(factors):
        after = seen(_placed.view_scaled(own, draw))
        assert np.abs(np.subtract(center_of_mass(after), before)).max() < 1
        assert math.sqrt(after.sum() / area) == pytest.approx(factor, abs=0.06)
    assert min(factors) < 0.8 < 1.2 < max(factors)


def test_factors_are_log_uniform_as_far_as_the_frame_allows() -> None:
    for corners, least, most in (
        ((24, 40, 24, 40), 0.5, 1.5),
        ((1, 15, 25, 39), 0.5, 8 / 7),  # the middle is 8 from the upper edge, the object's end 7
        ((25, 39, 0, 56), 0.5, 8 / 7),  # from the left edge, 56 pixels of the 64
        (ACROSS, 1.0, 1.5),  # to shrink would show the cuts
        (EVERYWHERE, 1.0, 1.5),
    ):
        own = photo(box(*corners))
        logs = np.log([_placed.factor(own, draw) for draw in range(400)])
        expected = np.linspace(math.log(least), math.log(most), 5)
        np.testing.assert_allclose(np.quantile(logs, [0, 0.25, 0.5, 0.75, 1]), expected, atol=0.08)
        assert logs.min() >= math.log(least) - 1e-9
        assert logs.max() <= math.log(most) + 1e-9


def test_no_cut_is_shown_where_one_that_the_frame_cuts_off_is_scaled() -> None:
    for corners in (AT_THE_LEFT, ACROSS, (50, SIDE, 40, SIDE)):
        own = photo(box(*corners))
        edges = [(slice(None), 0), (slice(None), -1), (0,), (-1,)]
        for draw in DRAWS:
            before, after = seen(own.view), seen(_placed.view_scaled(own, draw))
            for edge in edges:
                assert after[edge].any() == before[edge].any()
