"""The table of a dataset's photos survives the disk and is checked; whoever draws some of it draws the same ones."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from bgbias.errors import UserError
from bgbias.files.atomic import write_frame
from bgbias.photos.table import COLUMNS, ImageTable, read_table

ROW = ["a/1.jpg", 0, "a", "train", "mine|train", "a/1.jpg"]


def test_image_table_survives_the_disk(tmp_path: Path) -> None:
    rows = [
        ROW,
        ["NA", 1, "null", "test", "cub200|test", "007"],
        ['é,"1".jpg', 2, "", "unused", "k|s", "1e5"],
    ]
    table = ImageTable(pd.DataFrame(rows, columns=list(COLUMNS)))
    write_frame(tmp_path / "images.csv", table.frame)
    again = read_table(tmp_path / "images.csv")
    assert again.frame.to_numpy().tolist() == rows
    assert again.keys[1] == ("cub200|test", "007")
    assert again.labels.tolist() == [0, 1, 2]
    assert again.split("test").ids == ["NA"]


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


def test_empty_split_and_missing_table_are_errors(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="split 'val' has no photos"):
        ImageTable(pd.DataFrame([ROW], columns=list(COLUMNS))).split("val")
    with pytest.raises(UserError, match="python -m bgbias index birds"):
        read_table(tmp_path / "birds" / "images.csv")


def test_photos_come_in_the_order_of_their_keys_numbers() -> None:
    def number(n: int) -> bytes:
        return hashlib.sha256(f"attribution|own|test|{100 + n}".encode()).digest()[:8]

    expected = [f"{n}.png" for n in sorted(range(20), key=number)]
    for order in (range(20), reversed(range(20))):
        rows = [[f"{n}.png", n % 3, "class", "test", "own|test", str(100 + n)] for n in order]
        photos = ImageTable(pd.DataFrame(rows, columns=list(COLUMNS)))
        assert photos.keyed("attribution", 7).ids == expected[:7]
        assert photos.keyed("attribution", None).ids == photos.keyed("attribution", 99).ids == expected
        assert photos.keyed("crossing", 7).ids != expected[:7]
