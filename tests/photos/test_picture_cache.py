"""Prepared pictures: the same pixels as decoding each time, made once, and anew when the collection changes."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from miniatures import as_folder

from bgbias import seeds
from bgbias.errors import UserError
from bgbias.files.store import ImageStore, writing
from bgbias.images import pixels
from bgbias.photos import picture_cache


def noise(n: int, *shape: int) -> np.ndarray:
    return seeds.generator("noise", n).integers(0, 256, shape, dtype=np.uint8)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Wide, tall, small, square, and one that has the side already."""
    path = tmp_path / "photos.zip"
    with writing(path) as photos:
        for n, size in enumerate([(40, 61), (75, 50), (12, 15), (40, 40), (32, 47)]):
            photos.add(f"class {n % 2}/{n}.png", pixels.encode_png(noise(n, *size, 3)))
    return path


def files(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.glob("*.npz"))


def test_pixels_are_those_of_decoding_and_resizing(store: Path, tmp_path: Path) -> None:
    found = picture_cache.pictures(store, 32, tmp_path)
    source = ImageStore(store)
    assert found.ids == source.ids
    for row, name in enumerate(source.ids):
        expected = pixels.resize_short(source.array(name), 32)
        np.testing.assert_array_equal(found.get(name), expected)
        np.testing.assert_array_equal(found[row], expected)
    assert len(list(found)) == len(found) == 5
    assert ("class 0/0.png" in found, "0.png" in found) == (True, False)
    with pytest.raises(ValueError, match="read-only"):
        found[0][0] = 1
    # A changed collection takes the old one's place; who is reading the old one goes on reading it.
    picture_cache.pictures(store, 16, tmp_path)
    kept = found.get("class 0/0.png").copy()
    with writing(store) as photos:
        photos.add("class 0/0.png", pixels.encode_png(noise(9, 40, 61, 3)))
    assert (picture_cache.pictures(store, 32, tmp_path).get("class 0/0.png") != kept).any()
    assert [name.rsplit("-", 1)[0] for name in files(tmp_path)] == ["photos-16", "photos-32"]
    np.testing.assert_array_equal(found.get("class 0/0.png"), kept)


def test_masks_are_changed_before_they_are_resized(tmp_path: Path) -> None:
    with writing(tmp_path / "masks.zip") as masks:
        masks.add("a.png", pixels.encode_png(noise(0, 40, 60)))

    def threshold(mask: np.ndarray) -> np.ndarray:
        return np.where(mask > 99, 255, 0).astype(np.uint8)

    expected = pixels.resize_short(threshold(noise(0, 40, 60)), 20)
    for change, tag, is_same in ((threshold, "-hard", True), (None, "", False)):
        found = picture_cache.pictures(tmp_path / "masks.zip", 20, tmp_path, "L", change, tag)
        assert np.array_equal(found.get("a.png"), expected) == is_same
    assert len(files(tmp_path)) == 2  # side by side


def test_who_start_at_once_prepare_once(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[str] = []
    decode = pixels.decode

    def slow(data: bytes, name: str, mode: str = "RGB") -> np.ndarray:
        decoded.append(name)
        time.sleep(0.05)
        return decode(data, name, mode)

    monkeypatch.setattr(pixels, "decode", slow)
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(picture_cache.pictures, [store] * 2, [32] * 2, [tmp_path / "prepared"] * 2))
    assert sorted(decoded) == sorted(ImageStore(store).ids)


def test_disk_without_the_room_is_told_before_anything_is_written(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = shutil._ntuple_diskusage(10**9, 10**9 - 10**6, 10**6)  # type: ignore[attr-defined]
    monkeypatch.setattr(shutil, "disk_usage", lambda path: full)
    words = (
        r"5 pictures of .*photos\.zip at short side 32 take 20\.6 kB, and 268\.4 MB are kept free; .*prepared"
        r" has 1\.0 MB: 267\.5 MB are missing\. Free them, or name .* paths\.work"
    )
    with pytest.raises(UserError, match=words):
        picture_cache.pictures(store, 32, tmp_path / "prepared")


@pytest.mark.parametrize("ending", ["npy", "npz"])
def test_damaged_or_deleted_file_is_prepared_anew(store: Path, tmp_path: Path, ending: str) -> None:
    kept = picture_cache.pictures(store, 32, tmp_path)[0].copy()
    path = next(tmp_path.glob(f"*.{ending}"))
    for damaged in (path.read_bytes()[:-50], None):
        path.unlink()
        if damaged is not None:
            path.write_bytes(damaged)
        np.testing.assert_array_equal(picture_cache.pictures(store, 32, tmp_path)[0], kept)


def test_damaged_pixels_are_told_when_their_picture_is_read_and_cost_the_others_nothing(
    store: Path, tmp_path: Path
) -> None:
    first, second, *_ = picture_cache.pictures(store, 32, tmp_path)
    path = next(tmp_path.glob("*.npy"))
    content = bytearray(path.read_bytes())
    content[content.index(second.tobytes()) + 1000] ^= 1  # one bit of the second picture
    path.unlink()
    path.write_bytes(content)
    found = picture_cache.pictures(store, 32, tmp_path)
    np.testing.assert_array_equal(found[0], first)
    with pytest.raises(UserError, match=rf"'class 1/1\.png' is damaged in {path}.* delete it and run"):
        found.get("class 1/1.png")


def test_disk_without_file_locks_is_refused_with_a_way_out(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))
    monkeypatch.setattr(fcntl, "flock", Mock(side_effect=error))
    with pytest.raises(UserError, match=r"has no file locks \(No locks available\).* paths\.work"):
        picture_cache.pictures(store, 32, tmp_path / "prepared")


def test_what_was_interrupted_is_gone_on_with(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    picture_cache.pictures(store, 32, tmp_path / "whole")
    of_the_killed = {f".photos-{side}-0123.npy.elsewhere-1.partial": b"" for side in (32, 64)}
    left = as_folder(tmp_path / "killed", of_the_killed)
    decoded: list[str] = []
    decode = pixels.decode

    def interrupted(data: bytes, name: str, mode: str = "RGB") -> np.ndarray:
        decoded.append(name)
        if len(decoded) == 4:
            raise KeyboardInterrupt
        return decode(data, name, mode)

    monkeypatch.setattr(pixels, "decode", interrupted)
    with pytest.raises(KeyboardInterrupt):
        picture_cache.pictures(store, 32, left)
    partial, of_another_size = sorted(left.glob(".*partial"))
    assert of_another_size.name.startswith(".photos-64")
    with partial.open("ab") as file:
        file.write(b"half a picture")
    picture_cache.pictures(store, 32, left)
    assert set(decoded[4:]) < set(ImageStore(store).ids)
    (made,), (expected,) = (list(folder.glob("*.npy")) for folder in (left, tmp_path / "whole"))
    assert made.read_bytes() == expected.read_bytes()
