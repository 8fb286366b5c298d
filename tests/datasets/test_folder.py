"""A folder of one's own photos as a dataset: its classes, its splits, its masks."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from miniatures import as_folder, as_tar, as_zip
from snapshots import snapshot

from bgbias.datasets import folder
from bgbias.errors import UserError
from bgbias.files.fetch import fetch
from bgbias.images import pixels
from bgbias.images.drawn_masks import white
from bgbias.photos.table import Item


@pytest.fixture
def classes(tmp_path: Path) -> Path:
    """A user's folder: twelve classes, one of them with a single photo."""
    for c in range(12):
        for n in range(1 if c == 4 else 3):
            path = tmp_path / "photos" / f"class {c:02d}" / f"{n}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(f"{c} {n}".encode())
    (tmp_path / "photos" / "read me.txt").touch()
    return tmp_path / "photos"


def folder_items(source: Path, **options: Any) -> list[Item]:
    params = folder.Params.model_validate({"source": str(source), **options})
    parts = {part: source.parent / f"fetched {part}" for part in folder.parts(params)}
    for part, sources in folder.parts(params).items():
        fetch(sources, parts[part], "mine", part=part)
    return list(folder.items(params, parts, "mine"))


def test_folder_takes_masks_that_are_called_like_the_photos(classes: Path, tmp_path: Path) -> None:
    drawn = {"class 00/0.png": b"first", "class 07/2.png": b"second"}
    for pack in (as_folder, as_zip, as_tar):
        masks = pack(tmp_path / f"masks {pack.__name__}", drawn)
        found = {i.image_id: i.truth for i in folder_items(classes, masks=str(masks))}
        assert {n: t for n, t in found.items() if t} == {
            "class 00/0.jpg": b"first",
            "class 07/2.jpg": b"second",
        }
        assert len(found) == 34


def test_masks_of_zeros_and_ones_mean_black_and_white() -> None:
    ones = np.array([[0, 1], [1, 0]], np.uint8)
    assert pixels.decode(white(pixels.encode_png(ones), "m"), "m", "L").tolist() == [[0, 255], [255, 0]]
    for levels in ([[0, 0], [0, 0]], [[0, 2], [1, 0]], [[0, 255], [1, 0]]):
        data = pixels.encode_png(np.array(levels, np.uint8))
        assert white(data, "m") == data
    assert white(b"broken", "m") == b"broken"


def test_folder_mask_of_no_photo_is_refused(classes: Path, tmp_path: Path) -> None:
    masks = as_folder(tmp_path / "masks", {"class 00/0.png": b"", "class 0/0.png": b"", "class 1/0.png": b""})
    with pytest.raises(UserError, match=r"the mask 'class 0/0\.png' fits no photo \(2 in all\)"):
        folder_items(classes, masks=str(masks))


@pytest.mark.parametrize(
    ("photo", "mask", "words"),
    [
        (None, "class 00/0.bmp", r"the masks 'class 00/0\.bmp' and 'class 00/0\.png' have one name"),
        ("class 00/0.png", None, r"the photos 'class 00/0\.jpg' and 'class 00/0\.png' have one name"),
    ],
)
def test_two_masks_of_a_photo_and_two_photos_of_a_mask_are_refused(
    classes: Path, tmp_path: Path, photo: str | None, mask: str | None, words: str
) -> None:
    if photo:
        (classes / photo).touch()
    drawn = {name: b"" for name in ("class 00/0.png", mask) if name}
    with pytest.raises(UserError, match=words):
        folder_items(classes, masks=str(as_folder(tmp_path / "masks", drawn)))


def test_folder_gives_a_class_for_each_folder(classes: Path) -> None:
    found = folder_items(classes)
    assert len(found) == 11 * 3 + 1
    names = sorted({i.class_name for i in found})
    assert names == [f"class {c:02d}" for c in range(12)]
    for item in found:
        assert item.label == names.index(item.class_name)
        assert item.image_id.startswith(f"{item.class_name}/")
        assert (item.key_set, item.key_item) == (f"mine|{item.split}", item.image_id)
    assert [i.class_name for i in found].count("class 04") == 1


def test_folder_splits_by_class_and_by_seed(classes: Path) -> None:
    def split(**options: Any) -> dict[int, str]:
        found = {(i.label, i.split) for i in folder_items(classes, **options)}
        assert len(found) == 12  # no class lies in two splits
        return dict(found)

    assert Counter(split().values()) == {"train": 6, "val": 1, "test": 5}
    assert split() == split()
    assert split() != split(shuffle=1)
    fixed = split(shuffle=None, train_classes=3, val_classes=2)
    assert [fixed[c] for c in range(12)] == ["train"] * 3 + ["val"] * 2 + ["test"] * 7


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"train_classes": 11}, "12 classes, too few for 11 to train, 1 to validate"),
        ({"train_classes": 6, "val_classes": 6}, "too few"),
    ],
)
def test_folder_with_too_few_classes_is_refused(classes: Path, options: dict[str, int], words: str) -> None:
    with pytest.raises(UserError, match=words) as told:
        folder_items(classes, **options)
    assert "datasets.mine.options.train_classes" in str(told.value)


@pytest.fixture
def nested(tmp_path: Path) -> Path:
    """Six kinds of two products each, as shops have them."""
    for name in (f"kind{k}/product{p}/{n}.jpg" for k in range(6) for p in range(2) for n in range(2)):
        (tmp_path / "nested" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "nested" / name).write_bytes(name.encode())
    return tmp_path / "nested"


def test_folders_in_folders_are_refused_until_somebody_says_which_are_the_classes(nested: Path) -> None:
    with pytest.raises(UserError) as told:
        folder_items(nested)
    assert "datasets.mine.options.class_level" in str(told.value)
    assert "1 (6 classes, e.g. 'kind0'), or 2 (12 classes, e.g. 'kind0/product0')" in str(told.value)
    for level, names in ((1, {"kind0", "kind5"}), (2, {"kind0/product0", "kind5/product1"})):
        found = folder_items(nested, class_level=level)
        assert names < {i.class_name for i in found}
        assert len({i.class_name for i in found}) == 6 * level
        # Nobody lies in two splits.
        assert len({(i.class_name, i.split) for i in found}) == 6 * level
    with pytest.raises(UserError, match=r"lies in no folder of level 3"):
        folder_items(nested, class_level=3)


def test_class_folders_of_two_depths_are_refused_and_a_folder_around_all_is_none(classes: Path) -> None:
    around = classes.parent / "around"
    around.mkdir()
    classes.rename(around / "shop")
    found = folder_items(around)
    assert sorted({i.class_name for i in found}) == [f"class {c:02d}" for c in range(12)]
    (around / "shop" / "class 03" / "details").mkdir()
    (around / "shop" / "class 03" / "details" / "a.jpg").touch()
    with pytest.raises(UserError, match=r"2 \(12 classes, e\.g\. 'shop/class 00'\)"):
        folder_items(around)
    assert sum(i.class_name == "class 03" for i in folder_items(around, class_level=2)) == 4


def test_folder_with_pictures_beside_the_classes_is_refused(classes: Path) -> None:
    (classes / "loose.jpg").touch()
    with pytest.raises(UserError, match=r"mine: 'loose\.jpg' lies in no folder"):
        folder_items(classes)


def test_labels_among_the_photos_of_an_archive_are_their_classes(tmp_path: Path) -> None:
    files = {f"{n:03d}.jpg": snapshot(n) for n in range(12)}
    labels = {f"{n:03d}.cls": f"shoe {n % 4}".encode() for n in range(12)}
    found = folder_items(as_tar(tmp_path / "shard.tar", files | labels))
    assert {i.image_id: i.class_name for i in found} == {f"{n:03d}.jpg": f"shoe {n % 4}" for n in range(12)}
    assert {(i.key_set, i.key_item) for i in found} == {(f"mine|{i.split}", i.image_id) for i in found}
    square = [[10, 5, 20, 5, 20, 25, 10, 25]]
    described = {
        "images": [{"id": n, "file_name": f"{n:03d}.jpg", "width": 48, "height": 36} for n in range(12)],
        "categories": [{"id": c, "name": f"shoe {c}"} for c in range(4)],
        "annotations": [
            {"image_id": n, "category_id": n % 4, "segmentation": square, "area": 200} for n in range(12)
        ],
    }
    packed = {f"images/{n}": d for n, d in files.items()} | {"coco.json": json.dumps(described).encode()}
    drawn = folder_items(as_zip(tmp_path / "coco.zip", packed))
    assert sorted(i.class_name for i in drawn) == sorted(i.class_name for i in found)
    assert all(pixels.decode(i.truth or b"", "mask", "L").sum() == 255 * 200 for i in drawn)
