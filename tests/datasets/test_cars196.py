"""Cars196 is the same in every layout that is in circulation, by class and content."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
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


def layouts(folder: Path) -> Iterator[dict[str, Path]]:
    """Two files; the official four; one zip with folders doubled and a browser's number in a name; class folders."""
    files, split = miniatures.cars_joint(), miniatures.cars_split()
    annotations, labels = folder / "annos.mat", folder / "labels.mat"
    annotations.write_bytes(files.pop("cars_annos.mat"))
    yield {"photos": as_tar(folder / "car_ims.tgz", files), "annotations": annotations}
    labels.write_bytes(*split["labels"].values())
    official = {"train": "cars_train", "test": "cars_test", "devkit": "devkit"}
    yield {p: as_tar(folder / p, split[n]) for p, n in official.items()} | {"test_labels": labels}
    photos = split["cars_train"] | split["cars_test"]
    doubled = {f"{name.split('/')[0]}/{name}": data for name, data in photos.items()} | split["devkit"]
    named = {"cars_test_annos_withlabels (1).mat": labels.read_bytes()}
    yield {"photos": as_zip(folder / "one.zip", doubled | named)}
    yield {"photos": as_zip(folder / "classes.zip", miniatures.cars_by_class())}


def test_cars_are_the_same_in_every_layout_by_class_and_content(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cars = items({"photos": as_tar(tmp_path / "cars.tgz", miniatures.cars_joint())})
    for layout in layouts(tmp_path):
        assert items(layout) == cars
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
