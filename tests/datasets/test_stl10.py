"""STL-10: its photos the right way up, their classes and splits, and what photos without labels are for."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from miniatures import STL10_COUNTS, Files, as_folder, as_tar, stl10_files

from bgbias.datasets import stl10
from bgbias.errors import UserError
from bgbias.images import pixels
from bgbias.photos.table import Item


@pytest.fixture(autouse=True)
def counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stl10, "COUNTS", STL10_COUNTS)


def items(archive: Path, **options: Any) -> dict[str, Item]:
    params = stl10.Params(**options)
    return {i.image_id: i for i in stl10.items(params, {"photos": archive}, "stl")}


def test_photos_are_the_right_way_up(tmp_path: Path) -> None:
    # By hand: red grows from left to right, green from top to bottom, one pixel alone is blue.
    photo = np.zeros((96, 96, 3), np.uint8)
    photo[..., 0] = np.arange(96)
    photo[..., 1] = np.arange(96)[:, None]
    photo[3, 90, 2] = 255
    columns = b"".join(photo[:, x, c].tobytes() for c in range(3) for x in range(96))
    files = stl10_files()
    files["stl10_binary/train_X.bin"] = columns + files["stl10_binary/train_X.bin"][len(columns) :]
    found = items(as_tar(tmp_path / "stl.tar.gz", files))["train/00000.png"]
    assert np.array_equal(pixels.decode(found.data, "photo"), photo)


def test_labelled_photos_train_and_test_on_the_same_classes(tmp_path: Path) -> None:
    archive = as_tar(tmp_path / "stl.tar.gz", stl10_files())
    found = items(archive)
    assert (
        Counter(i.split for i in found.values())
        == {"train": 30, "test": 20}
        == Counter({s: n for s, n in stl10.expected(stl10.Params()).items() if n})
    )
    labels = [found[f"train/{n:05d}.png"].label for n in range(30)]
    assert labels == [n % 10 for n in range(30)]  # as the replica has them, counted from 1
    assert found["test/00003.png"].class_name == found["train/00013.png"].class_name == "cat"
    assert found["test/00003.png"].key_set == "stl10|test"
    validating = items(archive, val_per_class=1)
    assert {n for n, i in validating.items() if i.split == "val"} == {
        f"train/{n:05d}.png" for n in range(20, 30)
    }
    with pytest.raises(
        UserError, match=r"not every class has more than 3 .* lower datasets\.stl\.options.val_per_class"
    ):
        items(archive, val_per_class=3)


def test_photos_without_labels_only_train_and_are_of_one_class(tmp_path: Path) -> None:
    archive = as_tar(tmp_path / "stl.tar.gz", stl10_files())
    bare, every = items(archive, photos="unlabelled"), items(archive, photos="all")
    assert len(bare) == 40 == stl10.expected(stl10.Params(photos="unlabelled"))["train"]
    assert set(every) == set(bare) | {f"train/{n:05d}.png" for n in range(30)}
    assert {(i.split, i.label, i.class_name) for i in every.values()} == {("train", 0, "unlabelled")}
    with pytest.raises(ValueError, match="val_per_class is for labelled photos"):
        stl10.Params(photos="all", val_per_class=1)


@pytest.mark.parametrize(
    ("file", "change", "told"),
    [
        ("class_names.txt", None, "has no class_names.txt"),
        ("train_y.bin", None, "has no train_y.bin"),
        ("test_X.bin", None, "has 0 photos in test_X.bin, not 20"),
        ("train_X.bin", lambda data: data[:-1], "train_X.bin does not hold 30 photos of 27,648 bytes"),
        ("train_X.bin", lambda data: data * 2, "train_X.bin does not hold 30 photos"),
        ("test_y.bin", lambda data: data[1:], "test_y.bin does not hold 20 classes"),
        ("train_y.bin", lambda data: b"\0" + data[1:], "train_y.bin does not hold 30 classes from 1 to 10"),
        ("class_names.txt", lambda data: b"cat\ndog\n", "class_names.txt names 2 classes, not 10"),
    ],
)
def test_another_layout_is_refused_with_the_file(file: str, change: Any, told: str, tmp_path: Path) -> None:
    files: Files = stl10_files()
    data = files.pop(f"stl10_binary/{file}")
    if change:
        files[f"stl10_binary/{file}"] = change(data)
    with pytest.raises(UserError, match=told):
        items(as_tar(tmp_path / "stl.tar.gz", files))


def test_a_damaged_archive_is_told(tmp_path: Path) -> None:
    archive = as_tar(tmp_path / "stl.tar.gz", stl10_files())
    archive.write_bytes(archive.read_bytes()[:-2000])
    with pytest.raises(UserError, match=r"The archive .*stl\.tar\.gz cannot be read"):
        items(archive, photos="unlabelled")


def test_a_folder_is_told_to_be_packed(tmp_path: Path) -> None:
    folder = as_folder(tmp_path / "stl", stl10_files())
    with pytest.raises(ValueError, match="source is a folder"):
        stl10.Params(source=str(folder))
