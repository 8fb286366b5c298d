"""Whoever draws some photos of a table draws the same ones, whatever order they stand in."""

from __future__ import annotations

import hashlib

import pandas as pd

from bgbias.photos.table import COLUMNS, ImageTable


def table(order: list[int]) -> ImageTable:
    rows = [[f"{n}.png", n % 3, "class", "test", "own|test", str(100 + n)] for n in order]
    return ImageTable(pd.DataFrame(rows, columns=list(COLUMNS)))


def test_photos_come_in_the_order_of_their_keys_numbers() -> None:
    def number(n: int) -> bytes:
        return hashlib.sha256(f"attribution|own|test|{100 + n}".encode()).digest()[:8]

    expected = [f"{n}.png" for n in sorted(range(20), key=number)]
    for order in (range(20), reversed(range(20))):
        photos = table(list(order))
        assert photos.keyed("attribution", 7).ids == expected[:7]
        assert photos.keyed("attribution", None).ids == expected
        assert photos.keyed("attribution", 99).ids == expected
        assert photos.keyed("crossing", 7).ids != expected[:7]
