"""Conditions that change the object: its texture, who lends it and whose class is found for it; its place, and its size."""

import math

import numpy as np
import pandas as pd
import pytest
from in_memory import hash_number, split
from rankings import angles, embedded
from scipy.ndimage import center_of_mass

from bgbias import plugins, seeds
from bgbias.errors import UserError
from bgbias.evaluation import scores
from bgbias.evaluation.conditions import _placed, cue_conflict
from bgbias.evaluation.photos import EvaluationPhotos, Photo
from bgbias.report.tables import shape_texture

SIDE = 48
CLASSES = (0, 0, 1, 1, 2, 2, 3, 4, 4)
SMALL, ALONE, UNTRUSTED = 2, 6, 8


def mask(n: int) -> np.ndarray:
    """A rectangle with a rim of half a mask; of one photo too narrow a line to lend anything."""
    made = np.zeros((SIDE, SIDE), np.uint8)
    made[8 + n : 34 + n, 9 : 33 if n != SMALL else 12] = 128
    made[9 + n : 33 + n, 10 : 32 if n != SMALL else 11] = 255
    return made


def photo(n: int) -> np.ndarray:
    """Red says whose photo it is, blue that it is the object's sure part."""
    made = seeds.generator("cue conflict test", n).integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)
    made[..., 0], made[..., 2] = 20 * n + 10, np.where(mask(n) == 255, 250, 5)
    return made


def photos(classes: tuple[int, ...], trusted: set[int]) -> EvaluationPhotos:
    made = [photo(n) for n in range(len(classes))]
    return split(made, classes, SIDE, [mask(n) for n in range(len(classes))], trusted, filled=made)


def test_the_silhouette_is_exact_its_fill_the_donors_object_and_around_it_is_grey() -> None:
    shown = photos(CLASSES, set(range(len(CLASSES))) - {UNTRUSTED})
    asked = [("cue_conflict", 0), ("cue_conflict", 1)]
    views, donors = list(shown.views(asked)), shown.donors(asked)
    for (n, draw), view in zip(np.ndindex(len(CLASSES), 2), views, strict=True):
        if n == UNTRUSTED:
            np.testing.assert_array_equal(view, photo(n))
            continue
        # By the definition: u mod the number of candidates, struck out and drawn again where one cannot lend.
        # Of the classes of 6 and of 7 and 8 there is one trusted photo each.
        left = [m for m in range(len(CLASSES)) if m != UNTRUSTED and CLASSES[m] != CLASSES[n]]
        u = hash_number(f"own|test|cue_conflict|{draw}|{100 + n}")
        while (who := left[u % len(left)]) in (SMALL, ALONE, 7):
            left.remove(who)
        assert donors["cue_conflict", draw][n] == who
        own = mask(n)
        assert (view[own == 0] == 128).all()
        filled = view[own == 255]
        # Red: of this donor alone. Blue: of its object alone; its soft rim and its background have none.
        assert (filled[:, [0, 2]] == [20 * who + 10, 250]).all()
        theirs = {pixel.tobytes() for pixel in photo(who)[mask(who) == 255]}
        assert {pixel.tobytes() for pixel in filled} <= theirs
        assert len({pixel.tobytes() for pixel in filled}) > 20 or n == SMALL
        # Half a mask: half of a colour of the donor's object, half grey.
        half = np.abs(view[own == 128][:, [0, 2]].astype(float) - [(20 * who + 137) / 2, 188.75])
        assert half.max() <= 1
    assert not np.array_equal(views[0], views[1])


def alone(own: np.ndarray) -> Photo:
    """A photo with this mask, whose pixels say where they are: red the row, green the column."""
    places = np.stack([*np.mgrid[:SIDE, :SIDE], np.zeros((SIDE, SIDE))], axis=-1).astype(np.uint8)
    return split([places], [0], SIDE, [own], filled=[places]).photo(0)


def test_windows_lie_in_the_object_the_largest_first_and_smaller_ones_where_only_these_fit() -> None:
    own = np.zeros((SIDE, SIDE), np.uint8)
    own[2:26, 3:25] = own[2:13, 25:40] = 230  # a body of 24 x 22 pixels, and an arm of 11 x 15
    own[30:45, 3:45] = 229  # not sure enough
    block, squares = cue_conflict.windows(alone(own))
    assert block == round(36 * SIDE / 224)
    assert [square.shape for square in squares] == [(21, 21, 3), (11, 11, 3)]  # with a middle, so odd
    places = {tuple(place) for square in squares for place in square.reshape(-1, 3)[:, :2].tolist()}
    assert len(places) == 21**2 + 11**2  # none over another
    assert all(own[place] == 230 for place in places)
    for wide, sides in ((5, [5] * 7), (3, [])):
        narrow = np.zeros((SIDE, SIDE), np.uint8)
        narrow[4:40, 20 : 20 + wide] = 255  # blocks have 8 pixels at first, and 4 at last
        block, squares = cue_conflict.windows(alone(narrow))
        assert (block, [len(square) for square in squares]) == (4, sides)


def test_where_nobody_can_lend_a_texture_the_photo_and_the_key_are_named() -> None:
    for classes in ((0, 0, 0), (0, 0, 1, 2)):  # one class; others alone or too small
        with pytest.raises(UserError, match=r"(?s)'0\.png' a texture.*evaluation\.conditions"):
            next(photos(classes, set(range(len(classes)))).views([("cue_conflict", 0)]))


def decide(queries: np.ndarray, donors: list[int], labels: list[int], clean: np.ndarray) -> pd.Series:
    """The table's row of one model, whose queries were seen once."""
    views = {("clean", 0): clean, ("cue_conflict", 0): queries}
    model = {"dataset": "toy", "backbone": "tiny", "loss": "none", "method": "pretrained", "seed": 0}
    kept = embedded(labels, views, donors={("cue_conflict", 0): np.array(donors)})
    return shape_texture.table(scores.score_queries(kept, model)).iloc[0]


def test_decisions_by_hand() -> None:
    """Classes 0, 0, 1, 1, 2, 2 and 3, which has one photo; the gallery's photos lie at these angles."""
    queries = angles(
        1,  # 0: nearest are itself, which does not count, then 1 at 40: its own class, shape
        91,  # 1: its donor 2 at 90 does not count; 3 at 130 and itself at 40 are next: texture
        20,  # 2: by 0 and 1 alike, the donor's class either way, of which 0 lent: texture
        155,  # 3: 3 itself at 130 does not count; 4 at 180, of a third class: neither
        200,  # 4: 4 itself does not count, 5 at 220, is next: shape
        90,  # 5: 2 at 90 is not the donor but of its class: texture
        0,  # 6: nobody else of its class, so that shape cannot win: not counted
    )
    clean = angles(0, 40, 90, 130, 180, 220, 300)
    table = decide(queries, [2, 2, 0, 0, 0, 3, 0], [0, 0, 1, 1, 2, 2, 3], clean)
    found = table[["queries", "shape", "texture", "neither", "shape_share"]].tolist()
    assert found == pytest.approx([6, 100 * 2 / 6, 100 * 3 / 6, 100 * 1 / 6, 100 * 2 / 5])
    nobody = decide(angles(180, 180, 180, 0), [2, 2, 0, 3], [0, 0, 1, 2], angles(0, 5, 90, 180))
    assert (nobody["neither"], np.isnan(nobody["shape_share"])) == (100, True)


# Another place, or another size.

FRAME = 64
DRAWS = range(12)
# Rows and columns [top, bottom, left, right] of an object, and what is true of it.
WITHIN, AT_THE_LEFT = (20, 34, 12, 40), (20, 34, 0, 28)
ACROSS, EVERYWHERE = (20, 34, 0, FRAME), (0, FRAME, 0, FRAME)


def box(top: int, bottom: int, left: int, right: int) -> np.ndarray:
    mask = np.zeros((FRAME, FRAME), np.uint8)
    mask[top:bottom, left:right] = 255
    return mask


def red_object(mask: np.ndarray) -> Photo:
    """A red object on a blue gradient, which lies behind it as well."""
    behind = np.zeros((FRAME, FRAME, 3), np.uint8)
    behind[..., 2] = np.arange(FRAME)
    shown = np.where(mask[..., None] > 0, np.uint8([255, 0, 0]), behind)
    return split([shown], [0], FRAME, [mask], filled=[behind]).photo(0)


def seen(picture: np.ndarray) -> np.ndarray:
    """Where the object is, bool [S, S]: at a rim that was resized, half of a colour that is half background."""
    return picture[..., 0] > 63


def test_an_object_is_moved_as_a_whole_to_any_place_that_the_frame_has() -> None:
    own = red_object(box(*WITHIN))
    shifts = {_placed.shift(own, draw) for draw in range(2000)}
    # 28 columns and 14 rows wide, at column 12 and row 20.
    assert {right for right, _ in shifts} == set(range(-12, FRAME - 40 + 1))
    assert {down for _, down in shifts} == set(range(-20, FRAME - 34 + 1))
    for draw in DRAWS:
        right, down = _placed.shift(own, draw)
        expected = own.surroundings.copy()
        expected[20 + down : 34 + down, 12 + right : 40 + right] = own.view[20:34, 12:40]
        np.testing.assert_array_equal(_placed.view_moved(own, draw), expected)


def test_one_that_the_frame_cuts_off_stays_at_that_edge() -> None:
    shifts = [_placed.shift(red_object(box(*AT_THE_LEFT)), draw) for draw in DRAWS]
    assert {right for right, _ in shifts} == {0}
    assert len({down for _, down in shifts}) > 1
    empty = box(0, 0, 0, 0)
    assert _placed.extents(empty) == (_placed.Extent(0, FRAME, FRAME / 2, FRAME),) * 2
    for filling in (red_object(box(*EVERYWHERE)), red_object(empty)):
        own = plugins.load("conditions", "own_inpainted").view(filling, 0)
        np.testing.assert_array_equal(_placed.view_moved(filling, 0), own)


def test_an_object_is_scaled_about_its_centroid_and_stays_in_the_frame() -> None:
    triangle = np.tril(box(*WITHIN), -8)
    own = red_object(triangle)
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
        own = red_object(box(*corners))
        logs = np.log([_placed.factor(own, draw) for draw in range(400)])
        expected = np.linspace(math.log(least), math.log(most), 5)
        np.testing.assert_allclose(np.quantile(logs, [0, 0.25, 0.5, 0.75, 1]), expected, atol=0.08)
        assert logs.min() >= math.log(least) - 1e-9
        assert logs.max() <= math.log(most) + 1e-9


def test_no_cut_is_shown_where_one_that_the_frame_cuts_off_is_scaled() -> None:
    for corners in (AT_THE_LEFT, ACROSS, (50, FRAME, 40, FRAME)):
        own = red_object(box(*corners))
        edges = [(slice(None), 0), (slice(None), -1), (0,), (-1,)]
        for draw in DRAWS:
            before, after = seen(own.view), seen(_placed.view_scaled(own, draw))
            for edge in edges:
                assert after[edge].any() == before[edge].any()
