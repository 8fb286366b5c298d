"""Cars196 is the same dataset in whatever layout it comes: same photos, ids, splits and keys."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import miniatures
import pytest
from miniatures import as_folder, as_tar, as_zip

from bgbias.datasets import cars196
from bgbias.datasets.cars196 import NAMES
from bgbias.errors import UserError
from bgbias.files.fetch import fetch
from bgbias.photos.table import Item

Parts = dict[str, Path]
Makers = dict[str, Callable[[Path], Parts]]


def joint(folder: Path) -> Parts:
    (folder / "cars_annos.mat").write_bytes(miniatures.cars_annos())
    photos = as_tar(folder / "car_ims.tgz", miniatures.car_ims())
    return {"photos": photos, "annotations": folder / "cars_annos.mat"}


def joint_in_one_zip(folder: Path) -> Parts:
    files = miniatures.car_ims() | {"cars_annos.mat": miniatures.cars_annos()}
    return {"photos": as_zip(folder / "CARS196.zip", {f"cars196/{n}": data for n, data in files.items()})}


def official_split(folder: Path) -> Parts:
    made = miniatures.cars_split()
    (labels,) = made["labels"].values()
    (folder / "labels.mat").write_bytes(labels)
    parts = {"train": "cars_train", "test": "cars_test", "devkit": "devkit"}
    return {p: as_tar(folder / p, made[n]) for p, n in parts.items()} | {"test_labels": folder / "labels.mat"}


def official_split_in_one_zip(folder: Path) -> Parts:
    """With folders doubled and a browser's number in a name, as one re-upload has it."""
    made = miniatures.cars_split()
    files = {
        f"{n.split('/')[0]}/{n}": data for p in ("cars_train", "cars_test") for n, data in made[p].items()
    }
    (labels,) = made["labels"].values()
    return {
        "photos": as_zip(
            folder / "one.zip", files | made["devkit"] | {"cars_test_annos_withlabels (1).mat": labels}
        )
    }


def class_folders(folder: Path) -> Parts:
    return {"photos": as_zip(folder / "classes.zip", miniatures.cars_by_class())}


LAYOUTS: Makers = {
    made.__name__: made
    for made in (joint, joint_in_one_zip, official_split, official_split_in_one_zip, class_folders)
}


def items(parts: Parts) -> list[Item]:
    return list(cars196.items(cars196.Params(), parts, "cars"))


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Item]]:
    """What each layout's complete replica gives."""
    return {name: items(make(tmp_path_factory.mktemp(name))) for name, make in LAYOUTS.items()}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_counts_are_the_official_ones(found: dict[str, list[Item]], layout: str) -> None:
    photos = found[layout]
    assert (len(photos), len({i.label for i in photos})) == (16_185, 196)
    of_split = {s: {i.label for i in photos if i.split == s} for s in ("train", "val", "test")}
    assert of_split == {"train": set(range(74)), "val": set(range(74, 98)), "test": set(range(98, 196))}
    counts = Counter(i.split for i in photos)
    assert (counts["test"], counts["train"] + counts["val"]) == (8_131, 8_054)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_photos_keep_their_class(found: dict[str, list[Item]], layout: str) -> None:
    truth = {miniatures.jpeg(n): c for c, _, n in miniatures.cars()}
    assert all(truth[i.data] == i.label and i.class_name == NAMES[i.label] for i in found[layout])


def test_ids_and_keys_are_the_same_in_every_layout(found: dict[str, list[Item]]) -> None:
    def known(photos: list[Item]) -> dict[str, tuple[str, str, str]]:
        return {i.image_id: (i.split, i.key_set, i.key_item) for i in photos}

    first, *others = (known(photos) for photos in found.values())
    assert len(first) == 16_185
    assert all(other == first for other in others)
    test = [key for _, group, key in first.values() if group == "cars196|test"]
    assert sorted(map(int, test)) == list(range(8_131))


def test_id_names_class_and_content(found: dict[str, list[Item]]) -> None:
    by_number = {i.label: i for i in found["joint"]}
    item = by_number[NAMES.index("Ram C/V Cargo Van Minivan 2012")]
    start = hashlib.sha256(item.data).hexdigest()[:16]
    assert item.image_id == f"{item.label + 1:03d}.Ram C-V Cargo Van Minivan 2012/{start}.jpg"


def test_key_counts_photos_in_the_order_of_ids_within_the_split(found: dict[str, list[Item]]) -> None:
    for split in ("train", "val", "test"):
        ids = sorted(i.image_id for i in found["class_folders"] if i.split == split)
        keys = {i.image_id: int(i.key_item) for i in found["class_folders"]}
        assert [keys[n] for n in ids] == list(range(len(ids)))


def test_byte_equal_photos_of_a_class_are_told_apart() -> None:
    label = {("photos", name): 0 for name in ("a.jpg", "b.jpg", "c.jpg")}
    digests = {photo: "0" * 64 for photo in list(label)[:2]} | {("photos", "c.jpg"): "1" * 64}
    ids = cars196._ids(label, digests)
    assert len(set(ids.values())) == 3


def test_layout_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    next(iter(cars196.items(cars196.Params(), class_folders(tmp_path), "cars")))
    assert "cars: layout of class folders" in capsys.readouterr().err


def test_class_folders_may_be_unpacked(tmp_path: Path, found: dict[str, list[Item]]) -> None:
    source = as_folder(tmp_path / "unpacked", miniatures.cars_by_class())
    params = cars196.Params(source=str(source))
    fetch(cars196.parts(params)["photos"], tmp_path / "packed", "cars")
    again = cars196.items(params, {"photos": tmp_path / "packed"}, "cars")
    assert {i.image_id for i in again} == {i.image_id for i in found["joint"]}


def test_official_files_are_chosen_by_name() -> None:
    def wanted(**options: str) -> dict[str, str]:
        parts = cars196.parts(cars196.Params.model_validate(options))
        return {part: source.called for part, (source,) in parts.items()}

    assert wanted() == {"photos": "CARS196.zip"}
    assert wanted(files="car_ims.tgz") == {"photos": "car_ims.tgz", "annotations": "cars_annos.mat"}
    assert list(wanted(files="cars_train.tgz").values()) == [
        "cars_train.tgz", "cars_test.tgz", "car_devkit.tgz", "cars_test_annos_withlabels.mat",
    ]  # fmt: skip
    own = wanted(source="/data/cars.zip", annotations="/data/cars_annos.mat")
    assert own == {"photos": "cars.zip", "annotations": "cars_annos.mat"}


Change = Callable[[dict[str, bytes]], object]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda files: files.pop("car_ims/000007.jpg"), r"1 photos that cars_annos\.mat lists are missing, e\.g\. 'car_ims/0"),
        (lambda files: files.update({"cars_annos.mat": b"no MATLAB"}), r"cars_annos\.mat is not what Cars196 came with"),
        (lambda files: files.update({"cars_annos.mat": miniatures.cars_annos()[:9000]}), "is not what Cars196 came with"),
        (lambda files: files.pop("cars_annos.mat"), r"16185 photos in car_ims, annotations: none"),
    ],
)  # fmt: skip
def test_joint_layout_that_is_not_complete_is_refused(tmp_path: Path, change: Change, words: str) -> None:
    files = miniatures.car_ims() | {"cars_annos.mat": miniatures.cars_annos()}
    change(files)
    with pytest.raises(UserError, match=words):
        items({"photos": as_zip(tmp_path / "cars.zip", files)})


def test_official_split_without_test_labels_is_refused(tmp_path: Path) -> None:
    made = miniatures.cars_split()
    files = made["cars_train"] | made["cars_test"] | made["devkit"]
    with pytest.raises(UserError, match=r"cars_test_annos_withlabels\.mat is missing \(md5 b0a2b23655a3"):
        items({"photos": as_zip(tmp_path / "cars.zip", files)})


def test_annotations_of_ones_own_are_known_by_the_name_of_the_file_that_was_given(
    tmp_path: Path, found: dict[str, list[Item]]
) -> None:
    made = miniatures.cars_split()
    photos = as_zip(tmp_path / "cars.zip", made["cars_train"] | made["cars_test"] | made["devkit"])
    (labels,) = made["labels"].values()
    (tmp_path / "fetched annotations").write_bytes(labels)
    parts = {"photos": photos, "annotations": tmp_path / "fetched annotations"}
    own = cars196.Params(source=str(photos), annotations="/data/cars_test_annos_withlabels (1).mat")
    assert {i.image_id for i in cars196.items(own, parts, "cars")} == {i.image_id for i in found["joint"]}
    bare = as_zip(tmp_path / "bare.zip", made["cars_train"])
    with pytest.raises(
        UserError,
        match=r"photos in cars_train, annotations: cars_test_annos_withlabels\.mat\. Cars196 is read",
    ):
        list(cars196.items(own, parts | {"photos": bare}, "cars"))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda files: files.popitem(), "16184 photos of 196 classes, 8130 of them in classes 99-196; Cars196 has 16185"),
        (lambda files: files.update({"a/Trabant 601/1.jpg": b""}), "'a/Trabant 601/1.jpg' lies in a folder that is no class"),
    ],
)  # fmt: skip
def test_class_folders_of_another_dataset_are_refused(tmp_path: Path, change: Change, words: str) -> None:
    files = dict(miniatures.cars_by_class())
    change(files)
    with pytest.raises(UserError, match=words):
        items({"photos": as_zip(tmp_path / "cars.zip", files)})
