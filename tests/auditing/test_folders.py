"""A folder of photos, or an archive of one, is taken as it lies there, and what is doubtful in it is told."""

import re
import sys
import unicodedata
from hashlib import sha256
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from miniatures import as_folder, as_mac_zip, as_tar, as_zip
from snapshots import shop, snapshot

from bgbias.errors import UserError
from bgbias.files import pictures
from bgbias.images import pixels
from tests.support.collected import collect

WHITE = pixels.encode_png(np.full((36, 48), 255, np.uint8))


def test_folder_zip_and_tar_are_one_collection(tmp_path: Path) -> None:
    files = shop()
    packs = {"shop": as_folder, "shop.zip": as_zip, "shop.tar.gz": as_tar}
    found = [collect(pack(tmp_path / name, files)) for name, pack in packs.items()]
    for photos in found:
        assert (photos.name, photos.labelled, photos.classes) == ("shop", True, 3)
        assert photos.table.frame["split"].unique().tolist() == ["test"]
        # Backgrounds are drawn by what a photo shows.
        assert photos.table.keys[0] == ("photos|test", sha256(files["shoe 00/0.jpg"]).hexdigest())
        assert photos.table.labels.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
        assert {i: photos.read(i) for i in photos.table.ids} == files
        assert list(photos.describe()) == []
    assert len({photos.digest for photos in found}) == 1


def decomposed(files: dict[str, bytes]) -> dict[str, bytes]:
    """Files whose names are written as a Mac writes them."""
    return {unicodedata.normalize("NFD", name): data for name, data in files.items()}


def test_a_name_is_one_name_however_its_letters_are_stored(tmp_path: Path) -> None:
    """More forms and places of names: tests/files/test_archives.py."""
    files = {f"{name}/{n}.jpg": snapshot(name, n) for name in ("Käse", "Zoë") for n in range(2)}
    drawn = {name.replace(".jpg", ".png"): WHITE for name in files}
    usual = collect(as_folder(tmp_path / "shop", files), masks=as_folder(tmp_path / "masks", drawn))
    packed = {f"masks/{name}": data for name, data in decomposed(drawn).items()}
    place = as_folder(tmp_path / "NFD" / "shop", decomposed(files))
    other = collect(place, masks=as_mac_zip(tmp_path / "masks.zip", packed))
    assert set(other.table.frame["class_name"]) == {"Käse", "Zoë"}
    assert other.table.frame.drop(columns="image_id").equals(usual.table.frame.drop(columns="image_id"))
    assert [other.sums[i] for i in other.table.ids] == [usual.sums[i] for i in usual.table.ids]
    as_folder(place, {"Käse/2.jpg": snapshot(2)})  # a class in both forms is one class
    assert sorted(collect(place).table.frame["class_name"]) == ["Käse"] * 3 + ["Zoë"] * 2


def test_photos_beside_the_folders_of_classes_are_left_out(tmp_path: Path) -> None:
    files = {f"shop/{name}": data for name, data in (shop() | {"loose.jpg": snapshot("loose")}).items()}
    for place, name in (
        (as_folder(tmp_path, files) / "shop", "loose.jpg"),
        (as_zip(tmp_path / "shop.zip", files), "shop/loose.jpg"),
    ):
        photos = collect(place)
        assert (len(photos), photos.labelled) == (9, True)
        assert photos.left_out == {
            name: "beside the folders of the classes: put it into its own class's folder"
        }


@pytest.mark.parametrize(
    ("names", "why"),
    [
        (["1.jpg", "2.jpg"], "photos lie in no folders, which would say their classes"),
        (["one/1.jpg", "one/2.jpg"], "all photos are of one class ('one')"),
        (["one/1.jpg", "two/2.jpg"], "no class has two photos"),
    ],
)
def test_classes_that_say_nothing_are_told_and_not_used(tmp_path: Path, names: list[str], why: str) -> None:
    photos = collect(as_folder(tmp_path / "shop", {name: snapshot(name) for name in names}))
    assert not photos.labelled
    assert photos.table.labels.tolist() == [0, 1]
    assert why in next(photos.describe())


def test_folders_in_folders_are_refused_until_somebody_says_which_are_the_classes(tmp_path: Path) -> None:
    files = {f"{split}/{name}": data for split in ("test", "train") for name, data in shop().items()}
    place = as_folder(tmp_path / "shop", {f"photos/{n}": d for n, d in files.items()} | {"read me.txt": b""})
    with pytest.raises(UserError, match=r"--class-level: 1 \(1 classes") as told:
        collect(place)
    assert "If the first ones are splits, name the one to look at" in str(told.value)
    assert "params.yaml" not in str(told.value)
    assert collect(place, class_level=2).classes == 2
    assert collect(place, class_level=3).classes == 6
    with pytest.raises(UserError, match="lies in no folder of level 7; say a lower --class-level"):
        collect(place, class_level=7)


def test_what_systems_add_is_left_out_by_name(tmp_path: Path) -> None:
    added = ("__MACOSX/shoe 00/._0.jpg", "shoe 00/Thumbs.db", "shoe 00/.DS_Store", "shoe 01/notes.txt")
    photos = collect(as_zip(tmp_path / "shop.zip", shop() | dict.fromkeys(added, b"x")))
    assert (photos.left_out.keys(), len(photos)) == (set(added), 9)
    (hidden, no_picture) = photos.oddities
    assert (len(hidden.cases), hidden.remedy) == (3, "hidden, as systems add them: nothing to do")
    assert "no picture by its name (.txt)" in no_picture.remedy


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({}, "shop is empty; name the folder that holds a folder of photos for each class"),
        ({"a/1.nef": b"", ".x": b""}, "but 2 other files: 'a/1.nef' is a photo in a format that is not read"),
        ({"shop.csv": b"path"}, "holds no photos, but a table: name that one, {place}/shop.csv"),
    ],
)
def test_a_folder_without_photos_is_refused(tmp_path: Path, files: dict[str, bytes], words: str) -> None:
    place = as_folder(tmp_path / "shop", files)
    place.mkdir(exist_ok=True)
    with pytest.raises(UserError, match=re.escape(words.format(place=place))):
        collect(place)


def test_place_that_is_not_there_is_told_with_the_nearest_one(tmp_path: Path) -> None:
    as_folder(tmp_path, {"photos/1.jpg": b"", "photos.doc": b"x"})
    with pytest.raises(UserError, match=r"There is no folder or archive.*Did you mean '.*/photos'\?"):
        collect(tmp_path / "fotos")
    with pytest.raises(UserError, match="neither a folder, a zip or tar, nor a table"):
        collect(tmp_path / "photos.doc")


def test_heic_is_read_where_its_library_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Asked anew each time.
    monkeypatch.setattr(pictures, "can_read_heif", pictures.can_read_heif.__wrapped__)
    place = as_folder(tmp_path / "shop", shop() | {"shoe 00/phone.HEIC": snapshot("phone")})
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    left_out = collect(place).left_out
    assert "convert it to JPEG or PNG, or pip install pillow-heif" in left_out["shoe 00/phone.HEIC"]
    monkeypatch.setitem(sys.modules, "pillow_heif", library := Mock())
    assert collect(place).read("shoe 00/phone.HEIC") == snapshot("phone")
    library.register_heif_opener.assert_called()
