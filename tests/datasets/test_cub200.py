"""CUB-200-2011 delivers every photo with its class, its split, and the key by which its backgrounds are drawn."""

from __future__ import annotations

import tarfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import miniatures
import numpy as np
import pytest
from miniatures import as_folder, as_tar

from bgbias.datasets import _official, cub200
from bgbias.errors import UserError
from bgbias.files.fetch import Source, fetch
from bgbias.images import pixels
from bgbias.photos.table import Item

# Photos a class: five classes in the official layout, listed by class as the original is.
BIRDS = {
    "001.Black_footed_Albatross": 4,
    "002.Laysan_Albatross": 3,
    "003.Sooty_Albatross": 2,
    "004.Ani": 1,
    "005.Auklet": 3,
}
LISTED = [f"{name}/{name[4:]}_{n:04d}.jpg" for name, count in BIRDS.items() for n in range(count)]


def cub_files() -> dict[str, bytes]:
    """The archive's members, in an order that is not that of images.txt."""
    numbers = [(n, path) for n, path in enumerate(LISTED, 1)]
    files = {f"CUB_200_2011/images/{path}": path.encode() for path in reversed(LISTED)}
    files["CUB_200_2011/images/001.Black_footed_Albatross/unlisted.jpg"] = b"not in images.txt"
    files["CUB_200_2011/images.txt"] = "".join(f"{n} {path}\n" for n, path in numbers).encode()
    files["CUB_200_2011/image_class_labels.txt"] = "".join(f"{n} {int(p[:3])}\n" for n, p in numbers).encode()
    files["CUB_200_2011/attributes/images.txt"] = files["CUB_200_2011/images.txt"]
    return files


@pytest.fixture
def cub(tmp_path: Path) -> Callable[..., list[Item]]:
    """Items of a miniature of the official archive, after some change to its files."""

    def items(change: Callable[[dict[str, bytes]], Any] = lambda files: None, **options: Any) -> list[Item]:
        files = cub_files()
        change(files)
        as_tar(tmp_path / "cub.tgz", files)
        chosen = {"classes": 5, "split": {"train": (0, 2), "val": (2, 3), "test": (3, 5)}} | options
        params = cub200.Params.model_validate(chosen)
        return list(cub200.items(params, {"photos": tmp_path / "cub.tgz"}, "birds"))

    return items


def test_cub_items_are_as_listed(cub: Callable[..., list[Item]]) -> None:
    found = {item.image_id: item for item in cub()}
    assert found.keys() == set(LISTED)
    for place, path in enumerate(LISTED):
        item = found[path]
        assert (item.label, item.class_name) == (int(path[:3]) - 1, path.split("/")[0][4:])
        # Classes 1-75 belong to the official training split, whatever this study calls them.
        assert (item.key_set, item.key_item) == ("cub200|train", str(place))
        assert item.data == path.encode()
    assert Counter(i.split for i in found.values()) == {"train": 7, "val": 2, "test": 4}


def test_cub_restricted_to_first_classes_keeps_keys(cub: Callable[..., list[Item]]) -> None:
    whole = {i.image_id: (i.key_set, i.key_item, i.label) for i in cub()}
    found = cub(classes=3, split={"train": (0, 1), "val": (1, 2), "test": (2, 3)})
    assert {i.label for i in found} == {0, 1, 2}
    assert {i.image_id: (i.key_set, i.key_item, i.label) for i in found}.items() <= whole.items()


def test_cub_classes_outside_the_split_are_unused(cub: Callable[..., list[Item]]) -> None:
    found = cub(split={"train": (0, 1), "val": (1, 2), "test": (4, 5)})
    assert {i.label: i.split for i in found} == {0: "train", 1: "val", 2: "unused", 3: "unused", 4: "test"}


def test_cub_key_counts_within_the_official_split() -> None:
    # docs/methods.md, section 1: classes 0-74, 75-99 and 100-199; the last test photo is number 5923 (golden G2c).
    label = {f"{c}/{n}": c for c in range(200) for n in range(30)}
    places = _official.places((p, _official.split_of(n, cub200.OFFICIAL_SPLIT)) for p, n in label.items())
    assert places["74/29"] == ("train", 75 * 30 - 1)
    assert places["75/0"] == ("val", 0)
    assert places["100/0"] == ("test", 0)
    assert places["199/29"] == ("test", 100 * 30 - 1)


def test_cub_whole_must_have_its_official_counts(cub: Callable[..., list[Item]]) -> None:
    with pytest.raises(UserError, match="lists 13 photos of 5 classes, not 11788 of 200"):
        cub(classes=200)


def test_cub_with_fewer_classes_than_asked_for_is_refused(cub: Callable[..., list[Item]]) -> None:
    with pytest.raises(
        UserError, match=r"no photo of class 6, and 7 classes were asked for; set datasets\.birds\."
    ):
        cub(classes=7)


def test_cub_photo_that_is_listed_but_missing_is_named(cub: Callable[..., list[Item]]) -> None:
    with pytest.raises(
        UserError, match=r"lacks 1 of the photos it lists, e\.g\. '004\.Ani/Ani_0000\.jpg'; fetch"
    ):
        cub(lambda files: files.pop("CUB_200_2011/images/004.Ani/Ani_0000.jpg"))


@pytest.mark.parametrize("name", ["images.txt", "image_class_labels.txt"])
def test_cub_without_its_lists_is_refused(cub: Callable[..., list[Item]], name: str) -> None:
    def change(files: dict[str, bytes]) -> None:
        for member in [m for m in files if m.endswith(name)]:
            del files[member]

    with pytest.raises(UserError, match=rf"has no {name}: it is not in the official layout"):
        cub(change)


@pytest.mark.parametrize("labels", [b"1 1\n", b"1\n2\n", b"1 one\n"])
def test_cub_lists_that_do_not_fit_together_are_refused(
    cub: Callable[..., list[Item]], labels: bytes
) -> None:
    with pytest.raises(UserError, match="do not fit together"):
        cub(lambda files: files.update({"CUB_200_2011/image_class_labels.txt": labels}))


@pytest.mark.parametrize(
    "split",
    [
        {"train": [0, 3], "val": [2, 4], "test": [4, 5]},
        {"train": [0, 2], "val": [2, 3], "test": [3, 6]},
        {"train": [0, 2], "test": [3, 5]},
        {"train": [0, 2], "val": [3, 2], "test": [3, 5]},
        {"train": [-1, 2], "val": [2, 3], "test": [3, 5]},
    ],
)
def test_cub_split_that_cannot_be_meant_is_refused(split: dict[str, list[int]]) -> None:
    with pytest.raises(ValueError, match="split"):
        cub200.Params.model_validate({"classes": 5, "split": split})


def test_cub_comes_from_its_host_unless_a_file_is_named() -> None:
    assert cub200.parts(cub200.Params()) == {"photos": (cub200.OFFICIAL, cub200.MIRROR)}
    named = cub200.Params(source="shared:cub.tgz", sha256="a", segmentations=True)
    own = Source(place="shared:cub.tgz", sha256="a", keep=(".txt",))
    assert cub200.parts(named) == {"photos": (own,), "segmentations": (cub200.SEGMENTATIONS,)}


MASK = pixels.encode_png(np.full((2, 2), 255, np.uint8))


def masks_below(folder: str, but: str = "") -> dict[str, bytes]:
    return {f"{folder}/{p}".replace(".jpg", ".png"): MASK + p.encode() for p in LISTED if p != but}


def test_cub_segmentations_inside_the_archive_are_read(cub: Callable[..., list[Item]]) -> None:
    assert {i.truth for i in cub()} == {None}
    found = cub(lambda files: files.update(masks_below("CUB_200_2011/segmentations")))
    assert len(found) == len(LISTED)
    assert all(i.truth == MASK + i.image_id.encode() for i in found)


def test_cub_segmentations_come_as_an_archive_of_their_own(tmp_path: Path) -> None:
    archives = {
        "photos": as_tar(tmp_path / "photos", cub_files()),
        "segmentations": as_tar(tmp_path / "masks", masks_below("segmentations")),
    }
    split = {"train": (0, 2), "val": (2, 3), "test": (3, 5)}
    params = cub200.Params(classes=5, split=split, segmentations=True)
    found = list(cub200.items(params, archives, "birds"))
    assert all(i.truth == MASK + i.image_id.encode() for i in found)
    as_tar(tmp_path / "masks", masks_below("segmentations", but=LISTED[3]))
    with pytest.raises(UserError, match=f"lacks the masks of 1 photos, e.g. '{LISTED[3]}'"):
        list(cub200.items(params, archives, "birds"))


def test_cub_unpacked_folder_is_the_same_as_the_archive(
    tmp_path: Path, cub: Callable[..., list[Item]]
) -> None:
    as_folder(tmp_path / "unpacked", cub_files())
    params = cub200.Params(
        source=str(tmp_path / "unpacked" / "CUB_200_2011"),
        classes=5,
        split={"train": (0, 2), "val": (2, 3), "test": (3, 5)},
    )
    fetch(cub200.parts(params)["photos"], tmp_path / "packed", "birds")
    found = cub200.items(params, {"photos": tmp_path / "packed"}, "birds")
    assert sorted(found, key=lambda i: i.image_id) == sorted(cub(), key=lambda i: i.image_id)


def test_cub_complete_replica_has_the_official_counts_and_every_mask(tmp_path: Path) -> None:
    archives = {
        "photos": as_tar(tmp_path / "photos", miniatures.cub_files()),
        "segmentations": as_tar(tmp_path / "masks", miniatures.cub_segmentations()),
    }
    found = list(cub200.items(cub200.Params(segmentations=True), archives, "cub200"))
    assert (len(found), len({i.label for i in found})) == (11_788, 200)
    test = [i for i in found if i.split == "test"]
    assert {int(i.key_item) for i in test} == set(range(5_924))
    assert {i.label for i in test} == set(range(100, 200))
    assert {pixels.decode(i.truth or b"", i.image_id, "L").shape for i in found[:20]} == {(2, 2)}
    assert {pixels.decode(i.data, i.image_id).shape for i in found[:20]} == {(2, 2, 3)}  # grey ones too


@pytest.mark.shared
def test_cub_first_50_classes_are_indexed_as_listed(shared_data: Path) -> None:
    archive = shared_data / "cub200_first50.tgz"
    params = cub200.Params.model_validate(
        {
            "source": str(archive),
            "classes": 50,
            "split": {"train": (0, 20), "val": (20, 25), "test": (25, 50)},
        }
    )
    found = list(cub200.items(params, {"photos": archive}, "cub50"))
    with tarfile.open(archive) as opened:
        lists = {
            n: opened.extractfile(f"CUB_200_2011/{n}").read().decode()
            for n in ("images.txt", "image_class_labels.txt")
        }  # type: ignore[union-attr]
    paths = [line.split()[1] for line in lists["images.txt"].splitlines()]
    labels = [int(line.split()[1]) - 1 for line in lists["image_class_labels.txt"].splitlines()]
    assert len(paths) == 2889
    by_id = {i.image_id: i for i in found}
    assert len(by_id) == len(found)
    expected = {
        p: (label, "cub200|train", str(n)) for n, (p, label) in enumerate(zip(paths, labels, strict=True))
    }
    assert {n: (i.label, i.key_set, i.key_item) for n, i in by_id.items()} == expected
    counts = Counter(i.split for i in found)
    assert counts["test"] == 1487  # as the reference points were measured on
    assert sum(counts.values()) == 2889
