"""What is collected is looked at once: as a person sees it, with what stands out, and without a change to any file."""

from __future__ import annotations

import hashlib
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from miniatures import as_folder, as_tar, as_zip
from small_study import described, load
from snapshots import shop, snapshot

from bgbias.errors import UserError
from bgbias.files.store import ImageStore
from bgbias.images import pixels
from bgbias.nodes import index
from bgbias.photos.table import read_table
from tests.support.collected import collect


def test_photos_are_seen_as_a_person_sees_them(tmp_path: Path) -> None:
    files = shop() | {"shoe 00/0.jpg": snapshot("turned", orientation=6)}
    photos = collect(as_folder(tmp_path / "shop", files))
    assert pixels.decode(photos.read("shoe 00/0.jpg"), "turned").shape == (48, 36, 3)
    (turned,) = photos.oddities
    assert (turned.name, turned.cases) == ("turned_by_exif", ("shoe 00/0.jpg",))
    # The sum is that of the file.
    assert photos.sums["shoe 00/0.jpg"] == (hashlib.sha256(files["shoe 00/0.jpg"]).hexdigest(),)


def test_second_shots_are_left_out_and_counted(place: Path) -> None:
    """Beside each photo the same once more, cropped by a pixel and saved with another quality."""
    before = collect(place / "photos")
    for file in (place / "photos").rglob("*.png"):
        with pixels.Image.open(file) as photo:
            photo.crop((1, 1, 64, 64)).save(file.with_name(f"{file.stem}_again.jpg"), quality=60)
    photos = collect(place / "photos")
    assert photos.digest == before.digest
    assert set(photos.left_out) == {name.replace(".png", "_again.jpg") for name in photos.table.ids}
    assert (before.near_duplicates, photos.as_json()["near_duplicates"]) == (0, 30)


def test_tiny_huge_and_animated_pictures_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bgbias.photos.examination.HUGE", 36 * 48)
    files = shop(2) | {
        "shoe 00/huge.jpg": snapshot("huge", width=49),
        "shoe 01/tiny.jpg": snapshot("tiny", height=31),
    }
    place = as_folder(tmp_path / "shop", files)
    frames = [pixels.Image.fromarray(np.full((36, 48), level, np.uint8)) for level in (0, 99)]
    frames[0].save(place / "shoe 01/moving.gif", save_all=True, append_images=frames[1:])
    assert {oddity.name: oddity.cases for oddity in collect(place).oddities} == {
        "huge": ("shoe 00/huge.jpg",),
        "tiny": ("shoe 01/tiny.jpg",),
        "animated": ("shoe 01/moving.gif",),
    }


def test_true_masks_come_from_a_folder_of_their_own(tmp_path: Path) -> None:
    white = pixels.encode_png(np.full((36, 48), 255, np.uint8))
    across = pixels.encode_png(np.full((48, 36), 255, np.uint8))
    files = shop() | {"shoe 02/2.jpg": snapshot("turned", width=48, orientation=6)}
    drawn = {"shoe 00/0.png": white, "shoe 01/1.png": across, "shoe 02/2.png": white, "notes.txt": b"x"}
    place = as_folder(tmp_path / "shop", files)
    photos = collect(place, masks=as_zip(tmp_path / "masks.zip", drawn))
    assert photos.truth("shoe 00/0.jpg") is not None
    assert len(photos.sums["shoe 00/0.jpg"]) == 2
    assert photos.truth("shoe 00/1.jpg") is None
    assert photos.left_out.keys() == {"notes.txt (masks)", "shoe 01/1.jpg", "shoe 02/2.jpg"}
    assert "turn the mask too" in photos.left_out["shoe 02/2.jpg"]
    assert "turn the mask too" not in photos.left_out["shoe 01/1.jpg"]
    assert photos.digest != collect(place).digest
    # A note or a raw file of the photo's name is no second photo of the mask; another photo is.
    as_folder(place, {"shoe 00/0.txt": b"", "shoe 00/0.heic": b"", "shoe 00/1.png": white})
    assert collect(place, masks=tmp_path / "masks.zip").truth("shoe 00/0.jpg") is not None
    (place / "shoe 00" / "0.png").write_bytes(white)
    with pytest.raises(UserError, match=r"the photos 'shoe 00/0\.jpg' and 'shoe 00/0\.png' have one name"):
        collect(place, masks=tmp_path / "masks.zip")
    (place / "shoe 00" / "0.png").unlink()
    with pytest.raises(UserError, match=r"the mask 'shoe 9/0\.png' fits no photo \(1 in all\)"):
        collect(place, masks=as_folder(tmp_path / "wrong", {"shoe 9/0.png": white, "shoe 00/0.png": white}))


def test_photos_none_of_which_can_be_read_are_an_error(tmp_path: Path) -> None:
    place = as_folder(tmp_path / "shop", dict.fromkeys(shop(), b"broken"))
    with pytest.raises(
        UserError, match=r"none of 9 photos can be read. The first: 'shoe 00/0.jpg' cannot be decoded"
    ):
        collect(place)


def test_classes_that_lose_their_photos_are_classes_no_more(tmp_path: Path) -> None:
    files = shop(2, 2) | {"shoe 00/1.jpg": b"broken", "shoe 01/0.jpg": b"broken"}
    photos = collect(as_folder(tmp_path / "shop", files))
    assert (photos.labelled, photos.table.labels.tolist()) == (False, [0, 1])
    assert "of the photos that are taken, no class has two photos" in next(photos.describe())


def test_only_a_sample_is_looked_at_and_it_is_told(tmp_path: Path) -> None:
    place = as_folder(tmp_path / "shop", shop(6, 3))
    photos = collect(place, sample=9)
    assert list(photos.describe()) == ["shop: a sample of 9 of 18 photos: 3 of 6 classes, whole classes"]
    assert (len(photos), photos.labelled) == (9, True)
    assert collect(as_zip(tmp_path / "shop.zip", shop(6, 3)), sample=9).digest == photos.digest
    assert [len(collect(place, sample=n)) for n in (18, 100)] == [18, 18]
    with pytest.raises(UserError, match="A sample of 3 photos is too small"):
        collect(place, sample=3)
    loose = collect(sorted((place / "shoe 00").iterdir()), sample=2)
    assert list(loose.describe())[-1] == "photos: a sample of 2 of 3 photos"


def test_nothing_is_written_and_nothing_held(tmp_path: Path) -> None:
    heavy = {name: data + bytes(1_000_000) for name, data in shop(4, 5).items()}
    place = as_tar(tmp_path / "shop.tgz", heavy)
    written = place.stat().st_mtime_ns
    collect(place)  # what is imported and remembered once
    tracemalloc.start()
    photos = collect(place)
    held, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (list(tmp_path.iterdir()), place.stat().st_mtime_ns) == ([place], written)
    assert len(photos) == 20
    assert held < 1_000_000
    assert most < 6_000_000


def test_cut_outs_are_their_own_masks_where_the_photos_are_named_as_masks(tmp_path: Path) -> None:
    alpha = np.zeros((36, 48), np.uint8)
    alpha[10:30, 12:36] = 255
    photo = pixels.decode(snapshot("cut"), "cut")
    cut_out, grey = pixels.encode_png(np.dstack([photo, alpha])), pixels.encode_png(photo[..., 0])
    place = as_folder(tmp_path / "shop", shop() | {"shoe 00/cut.png": cut_out, "shoe 01/grey.png": grey})
    photos = collect(place, masks=place)
    assert [i for i in photos.table.ids if photos.has_truth(i)] == ["shoe 00/cut.png"]
    np.testing.assert_array_equal(pixels.decode(photos.truth("shoe 00/cut.png") or b"", "mask", "L"), alpha)


@pytest.mark.usefixtures("small_plugins")
def test_datasets_test_photos_keep_their_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = load(tmp_path, described(tmp_path))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        UserError, match=r"photos of squares are not at hand .* python -m bgbias index squares"
    ):
        collect("squares")
    index.index(study, "squares")
    photos = collect("squares")
    there = read_table(study.files.at("table", dataset="squares")).split("test")
    store, masks = (ImageStore(study.files.at(part, dataset="squares")) for part in ("photos", "truth"))
    assert photos.labelled
    assert photos.table.frame.equals(there.frame)
    first = there.ids[0]
    assert (photos.read(first), photos.truth(first)) == (store.read(first), masks.read(first))
    assert "photos of its other splits are not looked at" in next(photos.describe())


@pytest.mark.usefixtures("small_plugins")
def test_name_that_means_two_things_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load(tmp_path, described(tmp_path))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"called square\. Did you mean 'squares'\?"):
        collect("square")
    as_folder(tmp_path / "squares", {"1.jpg": b""})
    with pytest.raises(UserError, match=r"a dataset of .*params\.yaml, and a folder here; .* \./squares"):
        collect("squares")
    with pytest.raises(UserError, match="none of 1 photos can be read"):
        collect("./squares")
