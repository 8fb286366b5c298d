"""A folder or an archive of photos is taken as it lies there, and what is doubtful told; masks and backgrounds are made once."""

import re
import shutil
import sys
from hashlib import sha256
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from miniatures import as_folder, as_tar, as_zip
from safetensors.torch import save_file
from saliency_graphs import graph
from snapshots import shop, snapshot

from bgbias.auditing import backgrounds, masker
from bgbias.backgrounds import generated
from bgbias.errors import UserError
from bgbias.files import pictures
from bgbias.masks.mask_cache import KeptMasks
from bgbias.masks.policy import Mask
from tests.support.collected import collect


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


def test_photos_beside_the_folders_of_classes_are_left_out(tmp_path: Path) -> None:
    files = {f"shop/{name}": data for name, data in (shop() | {"loose.jpg": snapshot("loose")}).items()}
    photos = collect(as_zip(tmp_path / "shop.zip", files))
    assert (len(photos), photos.labelled) == (9, True)
    (reason,) = photos.left_out.items()
    assert reason == (
        "shop/loose.jpg",
        "beside the folders of the classes: put it into its own class's folder",
    )


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


# -- masks and backgrounds ---------------------------------------------------------------------------------------------

ALPHA = np.arange(48, dtype=np.uint8).reshape(6, 8)


def test_a_mask_comes_back_as_it_was_and_a_damaged_one_is_made_again(tmp_path: Path) -> None:
    kept, key = KeptMasks(tmp_path), "a" * 64
    assert key not in kept
    kept.keep(key, Mask(ALPHA, 0.1234567890123))
    again = KeptMasks(tmp_path).read(key)
    assert np.array_equal(again.alpha, ALPHA)
    assert again.confidence == 0.1234567890123
    (file,) = tmp_path.rglob("*.png")
    file.write_bytes(file.read_bytes()[:40])
    with pytest.raises(UserError, match=r"damaged.*run the same command again"):
        kept.read(key)
    assert key not in kept


def test_backgrounds_are_generated_once_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BGBIAS_CACHE", str(tmp_path))
    monkeypatch.setattr(backgrounds, "DRAWN", {"gradients": 2})
    monkeypatch.setattr(generated, "pictures", draw := Mock(wraps=generated.pictures))
    first = backgrounds.find(None)
    assert backgrounds.find(None) == first
    assert draw.call_count == 1
    # A damaged file, and a place where nothing can be kept, cost the drawing, and nothing else.
    [kept] = tmp_path.rglob("*.zip")
    data = kept.read_bytes()
    for damaged in (data[:-30], data.replace(b"IDAT", b"TADI")):
        kept.write_bytes(damaged)
        assert backgrounds.find(None) == first
    (tmp_path / "wall.png").touch()
    monkeypatch.setenv("BGBIAS_CACHE", str(tmp_path / "wall.png"))
    assert backgrounds.find(None) == first
    assert draw.call_count == 4
    with pytest.raises(UserError, match=r"is one picture; name the folder that holds it"):
        backgrounds.find(str(tmp_path / "wall.png"))


@pytest.mark.parametrize(
    ("name", "weights", "words"),
    [
        ("u2nett", None, "Did you mean 'u2net"),
        ("ground_truth", None, "--masks FOLDER"),
        ("grabcut", "some.pth", "leave out --mask-weights"),
        ("onnx", None, "no published weights; name its file by --mask-weights"),
    ],
)
def test_a_masker_that_cannot_be_is_refused(name: str, weights: str | None, words: str) -> None:
    with pytest.raises(UserError, match=words):
        masker.find(name, Path(weights) if weights else None, "cpu")


def test_options_of_a_masker_are_read_as_they_are_written_and_change_its_masks(tmp_path: Path) -> None:
    net = graph(tmp_path / "net.onnx")
    options = masker.parse_options(["mean=0.5,0.5,0.5", "sigmoid=false", "output=output_image"])
    assert options == {"mean": [0.5, 0.5, 0.5], "sigmoid": False, "output": "output_image"}
    plain, told = masker.find("onnx", net, "cpu"), masker.find("onnx", net, "cpu", options)
    assert plain.key != told.key
    assert ("mean (0.485" in plain.guesses, "mean" in told.guesses) == (True, False)
    with pytest.raises(UserError, match="has no value"):
        masker.parse_options(["mean"])
    with pytest.raises(UserError, match=r"--mask-option: unknown key 'maskers\.grabcut\.mean'"):
        masker.check("grabcut", None, options)
    with pytest.raises(UserError, match=r"--mask-option: .*maskers\.onnx\.mean"):
        masker.check("onnx", net, {"mean": 0.5})


def test_weights_are_found_or_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BGBIAS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("BGBIAS_SHARED_DATA", str(tmp_path / "shared"))
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:1")
    place = re.escape(str(tmp_path / "cache/weights/u2netp.onnx"))
    step = rf"\nName .* --mask-weights FILE \(\.onnx, \.pth or \.safetensors\); or get u2netp\.onnx .*{place}; .*--masker grabcut"
    with pytest.raises(UserError, match=step) as told:
        masker.find("u2netp", None, "cpu")
    assert "params.yaml" not in str(told.value)
    with pytest.raises(UserError, match=r"get isnet-general-use\.onnx \(178,648,008 bytes, md5 fc16"):
        masker.find("isnet", None, "cpu")
    mine = graph(tmp_path / "net.onnx")
    for folder in ("shared/weights", "cache/weights"):
        copy = as_folder(tmp_path / folder, {"isnet-general-use.onnx": mine.read_bytes()})
        assert masker.find("isnet", None, "cpu").key == masker.find("isnet", mine, "cpu").key
        shutil.rmtree(copy)
    wrong = tmp_path / "wrong.safetensors"
    save_file({"stage1.weight": torch.zeros(3)}, wrong)
    with pytest.raises(UserError, match=r"wrong\.safetensors.* Correct --mask-weights\.$"):
        masker.load(masker.find("u2netp", wrong, "cpu"))
