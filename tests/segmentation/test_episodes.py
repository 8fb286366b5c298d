"""Episodes are drawn by names alone, and no photo supports itself."""

from __future__ import annotations

import pandas as pd
import pytest

from bgbias.errors import UserError
from bgbias.photos.table import COLUMNS, ImageTable
from bgbias.segmentation.episodes import SHOTS, draw


def table(photos: dict[str, int]) -> ImageTable:
    rows = [(name, label, f"class {label}", "test", "toy|test", name) for name, label in photos.items()]
    return ImageTable(pd.DataFrame(rows, columns=list(COLUMNS)))


def classes(*sizes: int) -> dict[str, int]:
    return {f"{label}/{n}": label for label, size in enumerate(sizes) for n in range(size)}


PHOTOS = classes(8, 9, 6, 5, 4)


def test_supports_are_of_the_right_class_and_never_the_test_photo() -> None:
    for episode in draw(table(PHOTOS), PHOTOS, 100):
        own = PHOTOS[episode.test]
        assert {PHOTOS[name] for name in episode.positives} == {own}
        (other,) = {PHOTOS[name] for name in episode.negatives}
        assert other != own
        assert len(set(episode.photos)) == 1 + 2 * SHOTS == len(episode.photos)


def test_every_photo_with_enough_others_is_tested_once() -> None:
    tested = [episode.test for episode in draw(table(PHOTOS), PHOTOS, 100)]
    assert sorted(tested) == [name for name, label in PHOTOS.items() if label <= 2]
    # Five photos support, though none of them can be tested; four do neither.
    used = {PHOTOS[name] for episode in draw(table(PHOTOS), PHOTOS, 100) for name in episode.negatives}
    assert used == {0, 1, 2, 3}


def test_episodes_depend_on_names_alone() -> None:
    drawn = draw(table(PHOTOS), PHOTOS, 100)
    assert draw(table(dict(reversed(PHOTOS.items()))), list(PHOTOS), 100) == drawn
    assert draw(table(PHOTOS), PHOTOS, 7) == drawn[:7]
    assert [e.test for e in drawn] != sorted(e.test for e in drawn)


def test_photos_of_unknown_objects_support_and_are_not_tested() -> None:
    judged = [name for name, label in PHOTOS.items() if label == 1]
    drawn = draw(table(PHOTOS), judged, 100)
    assert {e.test for e in drawn} == set(judged)
    assert drawn == [e for e in draw(table(PHOTOS), PHOTOS, 100) if e.test in judged]


@pytest.mark.parametrize("photos", [classes(5, 5), classes(9, 4)], ids=["nobody left", "no other class"])
def test_too_few_photos_are_an_error(photos: dict[str, int]) -> None:
    with pytest.raises(UserError, match="no episode to draw: it takes a test photo"):
        draw(table(photos), photos, 3)
