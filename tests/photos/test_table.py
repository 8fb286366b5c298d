"""The table of a dataset's photos survives the disk and is checked; whoever draws some of it draws the same ones."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from bgbias.errors import UserError
from bgbias.files.atomic import write_frame
from bgbias.photos.sample import sample_classes
from bgbias.photos.table import COLUMNS, ImageTable, read_table

ROW = ["a/1.jpg", 0, "a", "train", "mine|train", "a/1.jpg"]


def test_image_table_survives_the_disk(tmp_path: Path) -> None:
    rows = [
        ROW,
        ["NA", 1, "null", "test", "cub200|test", "007"],
        ['é,"1".jpg', 2, "", "unused", "k|s", "1e5"],
    ]
    write_frame(tmp_path / "images.csv", pd.DataFrame(rows, columns=list(COLUMNS)))
    again = read_table(tmp_path / "images.csv")
    assert again.frame.to_numpy().tolist() == rows
    assert again.split("test").ids == ["NA"]
    with pytest.raises(UserError, match="split 'val' has no photos"):
        again.split("val")
    with pytest.raises(UserError, match="python -m bgbias index birds"):
        read_table(tmp_path / "birds" / "images.csv")


@pytest.mark.parametrize(
    ("rows", "columns", "words"),
    [
        ([ROW, ROW], COLUMNS, r"'a/1\.jpg' is listed twice"),
        ([[*ROW[:3], "dev", *ROW[4:]]], COLUMNS, "Unknown split 'dev'"),
        ([ROW[:5]], COLUMNS[:5], "has the columns image_id, label"),
    ],
)
def test_image_table_is_checked(rows: list[list[Any]], columns: tuple[str, ...], words: str) -> None:
    with pytest.raises(UserError, match=words):
        ImageTable(pd.DataFrame(rows, columns=list(columns)))


def test_photos_come_in_the_order_of_their_keys_numbers() -> None:
    def number(n: int) -> bytes:
        return hashlib.sha256(f"attribution|own|test|{100 + n}".encode()).digest()[:8]

    expected = [f"{n}.png" for n in sorted(range(20), key=number)]
    rows = [[f"{n}.png", n % 3, "class", "test", "own|test", str(100 + n)] for n in range(20)]
    for order in (rows, rows[::-1]):
        photos = ImageTable(pd.DataFrame(order, columns=list(COLUMNS)))
        assert photos.keyed("attribution", 7).ids == expected[:7]
        assert photos.keyed("attribution", None).ids == photos.keyed("attribution", 99).ids == expected
        assert photos.keyed("crossing", 7).ids != expected[:7]


# Samples of it.


def listed(sizes: list[int], name: str = "own") -> ImageTable:
    rows = [
        (f"{c}/{n}.jpg", c, f"class {c}", "test", f"{name}|test", f"{c}/{n}.jpg")
        for c, size in enumerate(sizes)
        for n in range(size)
    ]
    return ImageTable(pd.DataFrame(rows, columns=list(COLUMNS)))


@pytest.mark.parametrize(
    ("everything", "count", "most", "classes"),
    [
        ([3 + c % 4 for c in range(150)], 500, None, 111),  # whole classes, where a hundred fit
        ([30] * 150, 2000, 20, 100),  # a hundred classes, with equally many photos
        ([10] * 150, 30, 4, 7),  # too few for a hundred: four of fewer classes
        ([100, 4, 4], 20, 12, 3),  # small classes stay whole
        ([5, 5, 5], 4, 2, 2),
        ([6, 6, 6, 1, 1, 1], 9, 4, 2),  # of one photo there is nobody to find
    ],
)
def test_whole_classes_are_taken_where_a_hundred_fit_else_equally_many_photos_of_each(
    everything: list[int], count: int, most: int | None, classes: int
) -> None:
    drawn, found = sample_classes(listed(everything), "audit", count)
    sizes = drawn.frame["label"].value_counts().to_dict()
    assert (found, len(sizes)) == (most, classes)
    assert sizes == {c: min(everything[c], most or 500) for c in sizes}
    assert len(drawn) <= count


def test_sample_follows_from_names_alone() -> None:
    whole = listed([8] * 30)
    drawn, _ = sample_classes(whole, "audit", 60)
    shuffled = ImageTable(whole.frame.sample(frac=1, random_state=1).reset_index(drop=True))
    again, _ = sample_classes(shuffled, "audit", 60)
    assert sorted(again.ids) == sorted(drawn.ids)
    assert drawn.ids == [i for i in whole.ids if i in set(drawn.ids)]  # in the table's order
    for other in (sample_classes(listed([8] * 30, "other"), "audit", 60), sample_classes(whole, "else", 60)):
        assert sorted(other[0].ids) != sorted(drawn.ids)
    # Who is there does not change how a class's own photos are chosen.
    alone = ImageTable(whole.frame[whole.frame["label"] == 3].reset_index(drop=True))
    both = [set(sample_classes(t, "audit", n)[0].ids) for t, n in ((alone, 4), (whole, 120))]
    assert both[0] == {i for i in both[1] if i.startswith("3/")}
