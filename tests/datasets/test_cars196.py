"""Cars196 is the same in every layout that is in circulation, by class and content."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import miniatures
import pytest
from miniatures import as_tar, as_zip

from bgbias.datasets import cars196
from bgbias.errors import UserError
from bgbias.photos.table import Item


def items(parts: dict[str, Path], **options: Any) -> dict[str, Item]:
    """What a layout delivers, by id."""
    return {i.image_id: i for i in cars196.items(cars196.Params(**options), parts, "mine")}


def cars_in_two_files(folder: Path) -> dict[str, Path]:
    files = miniatures.cars_joint()
    (folder / "annos.mat").write_bytes(files.pop("cars_annos.mat"))
    return {"photos": as_tar(folder / "car_ims.tgz", files), "annotations": folder / "annos.mat"}


def cars_in_official_files(folder: Path) -> dict[str, Path]:
    made = miniatures.cars_split()
    (folder / "labels.mat").write_bytes(*made["labels"].values())
    parts = {"train": "cars_train", "test": "cars_test", "devkit": "devkit"}
    return {p: as_tar(folder / p, made[n]) for p, n in parts.items()} | {"test_labels": folder / "labels.mat"}


def cars_in_one_zip(folder: Path) -> dict[str, Path]:
    """With folders doubled and a browser's number in a name, as one re-upload has it."""
    made = miniatures.cars_split()
    photos = made["cars_train"] | made["cars_test"]
    files = {f"{name.split('/')[0]}/{name}": data for name, data in photos.items()} | made["devkit"]
    (labels,) = made["labels"].values()
    named = files | {"cars_test_annos_withlabels (1).mat": labels}
    return {"photos": as_zip(folder / "one.zip", named)}


def cars_in_class_folders(folder: Path) -> dict[str, Path]:
    return {"photos": as_zip(folder / "classes.zip", miniatures.cars_by_class())}


CARS = (cars_in_two_files, cars_in_official_files, cars_in_one_zip, cars_in_class_folders)


def test_cars_are_the_same_in_every_layout_by_class_and_content(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cars = items({"photos": as_tar(tmp_path / "cars.tgz", miniatures.cars_joint())})
    for layout in CARS:
        assert items(layout(tmp_path)) == cars
    assert capsys.readouterr().err.count("mine: layout ") == 5
    truth = {miniatures.jpeg(n): c for c, _, n in miniatures.CARS}
    assert all(truth[i.data] == i.label for i in cars.values())
    assert all(cars196.NAMES[i.label] == i.class_name for i in cars.values())
    ranges = {"train": range(74), "val": range(74, 98), "test": range(98, 196)}
    for split, labels in ranges.items():
        keys = {name: int(i.key_item) for name, i in cars.items() if i.split == split}
        assert [keys[name] for name in sorted(keys)] == list(range(len(keys)))
        assert {cars[name].label for name in keys} == set(labels)
    item = next(i for i in cars.values() if i.class_name == "Ram C/V Cargo Van Minivan 2012")
    start = hashlib.sha256(item.data).hexdigest()[:16]
    assert item.image_id == f"{item.label + 1:03d}.Ram C-V Cargo Van Minivan 2012/{start}.jpg"
    # Byte-equal ones of a class are told apart.
    digests = {("photos", name): "0" * 64 for name in "abc"}
    assert len(set(cars196._ids(dict.fromkeys(digests, 0), digests).values())) == 3


def test_annotations_of_ones_own_are_known_by_the_name_of_the_file_that_was_given(tmp_path: Path) -> None:
    made = miniatures.cars_split()
    split = made["cars_train"] | made["cars_test"] | made["devkit"]
    parts = {"photos": as_zip(tmp_path / "cars.zip", split), "annotations": tmp_path / "fetched annotations"}
    parts["annotations"].write_bytes(*made["labels"].values())
    own = {"source": "cars.zip", "annotations": "/data/cars_test_annos_withlabels (1).mat"}
    assert len(items(parts, **own)) == 588
    with pytest.raises(UserError, match=r"cars_test_annos_withlabels\.mat is missing \(md5 b0a2b23655a3"):
        items({"photos": parts["photos"]})
