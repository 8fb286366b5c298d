"""Shape against texture: what a picture is made of, who lends its texture, and whose class is found for it."""

import numpy as np
import pandas as pd
import pytest
from in_memory import hash_number, split
from rankings import angles, embedded

from bgbias import seeds
from bgbias.errors import UserError
from bgbias.evaluation import scores
from bgbias.evaluation.conditions import cue_conflict
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


def find_lender(n: int, draw: int) -> int:
    """By the definition: u mod the number of candidates, struck out and drawn again where one cannot lend."""
    u = hash_number(f"own|test|cue_conflict|{draw}|{100 + n}")
    left = [m for m in range(len(CLASSES)) if m != UNTRUSTED and CLASSES[m] != CLASSES[n]]
    # Of the classes of 6 and of 7 and 8 there is one trusted photo each.
    while (found := left[u % len(left)]) in (SMALL, ALONE, 7):
        left.remove(found)
    return found


def test_the_silhouette_is_exact_its_fill_the_donors_object_and_around_it_is_grey() -> None:
    shown = photos(CLASSES, set(range(len(CLASSES))) - {UNTRUSTED})
    asked = [("cue_conflict", 0), ("cue_conflict", 1)]
    views, donors = list(shown.views(asked)), shown.donors(asked)
    for (n, draw), view in zip(np.ndindex(len(CLASSES), 2), views, strict=True):
        if n == UNTRUSTED:
            np.testing.assert_array_equal(view, photo(n))
            continue
        who = int(donors["cue_conflict", draw][n])
        assert who == find_lender(n, draw)
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
