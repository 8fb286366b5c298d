"""A sample keeps what MAP@R asks: whole classes where many fit, equally many photos of each where not, and always the same."""

from __future__ import annotations

import pandas as pd
import pytest

from bgbias.photos.sample import CLASSES, sample_classes
from bgbias.photos.table import COLUMNS, ImageTable


def table(sizes: list[int], name: str = "own") -> ImageTable:
    rows = [
        (f"{c}/{n}.jpg", c, f"class {c}", "test", f"{name}|test", f"{c}/{n}.jpg")
        for c, size in enumerate(sizes)
        for n in range(size)
    ]
    return ImageTable(pd.DataFrame(rows, columns=list(COLUMNS)))


def sizes_of(sample: ImageTable) -> dict[int, int]:
    return sample.frame["label"].value_counts().to_dict()


def test_whole_classes_are_taken_where_a_hundred_fit() -> None:
    everything = [3 + c % 4 for c in range(150)]
    drawn, most = sample_classes(table(everything), "audit", 500)
    assert most is None
    assert 490 < len(drawn) <= 500
    assert len(sizes_of(drawn)) >= CLASSES
    assert all(size == everything[c] for c, size in sizes_of(drawn).items())


@pytest.mark.parametrize(
    ("everything", "count", "most", "classes"),
    [
        ([50] * 10, 200, 20, 10),  # all classes, with equally many photos
        ([30] * 150, 2000, 20, 100),  # a hundred classes
        ([10] * 150, 30, 4, 7),  # too few for a hundred: four of fewer classes
        ([100, 4, 4], 20, 12, 3),  # small classes stay whole
        ([5, 5], 5, 2, 2),
        ([5, 5, 5], 4, 2, 2),
        ([6, 6, 6, 1, 1, 1], 9, 4, 2),  # of one photo there is nobody to find
    ],
)
def test_a_class_gives_equally_many_photos_where_whole_ones_do_not_fit(
    everything: list[int], count: int, most: int, classes: int
) -> None:
    drawn, found = sample_classes(table(everything), "audit", count)
    assert (found, len(sizes_of(drawn))) == (most, classes)
    assert sizes_of(drawn) == {c: min(everything[c], most) for c in sizes_of(drawn)}
    assert len(drawn) <= count


def test_sample_follows_from_names_alone() -> None:
    whole = table([8] * 30)
    drawn, _ = sample_classes(whole, "audit", 60)
    shuffled = ImageTable(whole.frame.sample(frac=1, random_state=1).reset_index(drop=True))
    again, _ = sample_classes(shuffled, "audit", 60)
    assert sorted(again.ids) == sorted(drawn.ids)
    assert drawn.ids == [i for i in whole.ids if i in set(drawn.ids)]  # in the table's order
    for other in (sample_classes(table([8] * 30, "other"), "audit", 60), sample_classes(whole, "else", 60)):
        assert sorted(other[0].ids) != sorted(drawn.ids)
    # Who is there does not change how a class's own photos are chosen.
    alone = ImageTable(whole.frame[whole.frame["label"] == 3].reset_index(drop=True))
    both = [set(sample_classes(t, "audit", n)[0].ids) for t, n in ((alone, 4), (whole, 120))]
    assert both[0] == {i for i in both[1] if i.startswith("3/")}
