"""Photos with masks drawn by hand are read from folders and tables, or what is wrong with them is named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bgbias.errors import UserError
from bgbias.images import pixels
from bgbias.masks import pairs as mask_pairs
from bgbias.toy.render import specimens


def test_pairs_are_read_from_a_folder_and_from_a_table_alike(tmp_path: Path) -> None:
    photos, masks = specimens(4, 32)
    folder, groups = tmp_path / "drawn", ["odd", "odd", "even", "even"]
    for number, group in enumerate(groups):
        (folder / group).mkdir(parents=True, exist_ok=True)
        for kind, pictures in (("image", photos), ("mask", masks)):
            path = folder / group / f"{number}_{kind}.png"
            path.write_bytes(pixels.encode_png(pictures[number]))
    (folder / "odd" / "0_rembg.png").write_bytes(pixels.encode_png(masks[0]))  # neither photo nor mask
    rows = [(f"{g}/{n}_image.png", f"{g}/{n}_mask.png", g) for n, g in enumerate(groups)]
    pd.DataFrame(rows, columns=["image", "mask", "group"]).to_csv(folder / "pairs.csv", index=False)
    for place in (folder, folder / "pairs.csv"):
        found = mask_pairs.read_pairs(place)
        assert [p.group for p in found] == ["even", "even", "odd", "odd"]
        for pair, number in zip(found, (2, 3, 0, 1), strict=True):
            np.testing.assert_array_equal(pair.photo, photos[number])
            np.testing.assert_array_equal(pair.mask, masks[number])


WHITE, BLACK, NARROW = (
    pixels.encode_png(np.full(shape, level, np.uint8))
    for shape, level in (((4, 6), 255), ((4, 6), 0), ((4, 5), 255))
)


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"7.jpg": WHITE}, r"7\.jpg has no mask; draw 7_mask\.png"),
        ({"7.jpg": WHITE, "7_mask.png": NARROW}, r"7_mask\.png is 5x4 pixels, its photo 7\.jpg 6x4"),
        ({"7.jpg": WHITE, "7_mask.png": BLACK}, r"7_mask\.png shows no object"),
        ({"7.jpg": WHITE, "7_mask.png": WHITE, "8_mask.png": WHITE}, r"8_mask\.png has no photo"),
        ({}, "holds no photo with a mask; name them like this"),
        ({"pairs.csv": b"image,truth\n7.jpg,7_mask.png\n"}, "no column 'mask'"),
        (
            {
                "7.jpg": WHITE,
                "7_mask.png": WHITE,
                "pairs.csv": b"image,mask\n7.jpg,7_mask.png\n9.jpg,7_mask.png\n",
            },
            r"line 3: no file '9\.jpg' \(image\)",
        ),
    ],
)
def test_pairs_that_cannot_be_used_are_named(tmp_path: Path, files: dict[str, bytes], words: str) -> None:
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    place = tmp_path / "pairs.csv" if "pairs.csv" in files else tmp_path
    with pytest.raises(UserError, match=words):
        mask_pairs.read_pairs(place)
    with pytest.raises(UserError, match="There is no folder or table"):
        mask_pairs.read_pairs(tmp_path / "absent")
