"""Prepared pictures are those of decoding, made once and anew when their collection changes; crops of them are Pillow's."""

import errno
import fcntl
import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import DEFAULT, Mock

import numpy as np
import pytest
import torch
from miniatures import as_folder

from bgbias import seeds
from bgbias.errors import UserError
from bgbias.files.store import ImageStore, writing
from bgbias.images import pixels
from bgbias.photos import crops, picture_cache
from bgbias.photos.crops import DeviceCrops, PillowCrops, cropper


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
    def slowly(*_: object) -> object:
        time.sleep(0.05)
        return DEFAULT

    decode = Mock(wraps=pixels.decode, side_effect=slowly)
    monkeypatch.setattr(pixels, "decode", decode)
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(picture_cache.pictures, [store] * 2, [32] * 2, [tmp_path / "prepared"] * 2))
    assert sorted(call.args[1] for call in decode.call_args_list) == sorted(ImageStore(store).ids)


def test_disks_without_locks_or_space_are_told(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(fcntl, "flock", Mock(side_effect=OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))))
        with pytest.raises(UserError, match=r"no file locks \(No locks available\).* paths\.work .* --out"):
            picture_cache.pictures(store, 32, tmp_path / "prepared")
    full = shutil._ntuple_diskusage(10**9, 10**9 - 10**6, 10**6)  # type: ignore[attr-defined]
    monkeypatch.setattr(shutil, "disk_usage", lambda path: full)
    words = (
        r"5 pictures of .*photos\.zip at short side 32 take 20\.6 kB, and 268\.4 MB are kept free; .*prepared"
        r" has 1\.0 MB: 267\.5 MB are missing\. Free them, or name .* paths\.work .* --out"
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


def test_damaged_pixels_are_told_and_cost_the_others_nothing(store: Path, tmp_path: Path) -> None:
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


def test_what_was_interrupted_goes_on(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    picture_cache.pictures(store, 32, tmp_path / "whole")
    of_the_killed = {f".photos-{side}-0123.npy.elsewhere-1.partial": b"" for side in (32, 64)}
    left = as_folder(tmp_path / "killed", of_the_killed)
    decode = Mock(wraps=pixels.decode, side_effect=[DEFAULT, DEFAULT, DEFAULT, KeyboardInterrupt, DEFAULT])
    monkeypatch.setattr(pixels, "decode", decode)
    with pytest.raises(KeyboardInterrupt):
        picture_cache.pictures(store, 32, left)
    partial, of_another_size = sorted(left.glob(".*partial"))
    assert of_another_size.name.startswith(".photos-64")
    with partial.open("ab") as file:
        file.write(b"half a picture")
    decode.reset_mock(side_effect=True)
    picture_cache.pictures(store, 32, left)
    assert {call.args[1] for call in decode.call_args_list} < set(ImageStore(store).ids)
    (made,), (expected,) = (list(folder.glob("*.npy")) for folder in (left, tmp_path / "whole"))
    assert made.read_bytes() == expected.read_bytes()


# Crops of whole batches.


SIZE, COUNT = 37, 200


def pictures(channels: int) -> list[np.ndarray]:
    """Small and large, wide and tall, smooth as photos are and full of noise."""
    rng = seeds.generator("cropping", channels)
    made = []
    # The last ones' heights shrink by twice as many pixels as their widths, and by one more, where Pillow changes its order.
    squares = [(40, 61), (90, 40), (40, 40), (37, 37), (12, 15), (200, 64)]
    for height, width in [*squares, (90, 20), (91, 64), (92, 64)]:
        noise = rng.integers(0, 256, (height, width, channels), dtype=np.uint8)
        smooth = pixels.resize_short(rng.integers(0, 256, (4, 6, 3), dtype=np.uint8), 40)[..., :channels]
        made += [noise, smooth]
    return [m[..., 0] if channels == 1 else m for m in made]


def on_device(shown: list[np.ndarray], device: str = "cpu") -> DeviceCrops:
    return DeviceCrops(shown.__getitem__, [p.shape for p in shown], SIZE, device)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("channels", [1, 3])
def test_crops_are_pillows_to_the_byte(channels: int, device: str) -> None:
    """Of tall pictures too, which Pillow resizes down before it resizes them across."""
    rng = seeds.generator("boxes", channels)
    shown = pictures(channels)
    rows = rng.integers(len(shown), size=COUNT).tolist()
    drawn = [pixels.random_box(rng, *shown[row].shape[:2]) for row in rows]
    boxes, flips = [b for b, _ in drawn], [f for _, f in drawn]
    found = on_device(shown, device).crops(rows, boxes, flips).cpu()
    assert (found.shape, found.dtype) == ((COUNT, channels, SIZE, SIZE), torch.uint8)
    assert found.is_contiguous(memory_format=torch.channels_last)
    for row, box, flip, crop in zip(rows, boxes, flips, found, strict=True):
        expected = pixels.crop(shown[row], box, SIZE, flip).reshape(SIZE, SIZE, channels)
        np.testing.assert_array_equal(crop.permute(1, 2, 0).numpy(), expected)
    assert 0 < sum(flips) < COUNT
    large = [picture for picture in shown if min(picture.shape[:2]) >= SIZE]
    rows = [*range(len(large)), 0]
    centres = on_device(large, device).centres(rows).cpu()
    for row, centre in zip(rows, centres, strict=True):
        expected = pixels.centre_crop(large[row], SIZE).reshape(SIZE, SIZE, channels)
        np.testing.assert_array_equal(centre.permute(1, 2, 0).numpy(), expected)
    assert torch.equal(PillowCrops(large.__getitem__, SIZE).centres(rows), centres)


def test_a_crop_does_not_depend_on_those_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor on how many are too much at once, nor on who crops; the largest box reaches all four edges."""
    shown, rng = pictures(3), seeds.generator("boxes")
    rows, flips = range(len(shown)), [bool(n % 2) for n in range(len(shown))]
    boxes = [pixels.random_box(rng, *p.shape[:2])[0] for p in shown]
    boxes[0] = pixels.RelativeBox(0, 0, 1, 1)
    kept = on_device(shown)
    together = kept.crops(rows, boxes, flips)
    for row, crop in zip(rows, together, strict=True):
        assert torch.equal(kept.crops([row], [boxes[row]], [flips[row]])[0], crop)
    monkeypatch.setattr(crops, "SCRATCH", 1)
    assert torch.equal(kept.crops(rows, boxes, flips), together)
    for few in (True, False):
        one = cropper(shown.__getitem__, [p.shape for p in shown], SIZE, "cpu", few)
        assert isinstance(one, PillowCrops)
        found = one.crops(rows, boxes, flips)
        assert found.is_contiguous(memory_format=torch.channels_last)
        assert torch.equal(found, together)
