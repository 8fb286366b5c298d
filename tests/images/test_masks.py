"""Masks are understood however a program wrote them, and mixing by them is exact: nothing but the formula happens."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import ExifTags, Image

from bgbias import seeds
from bgbias.errors import UserError
from bgbias.images import drawn_masks, pixels
from bgbias.images.composite import CutOut, blend, blend_batch
from bgbias.models.preprocess import Preprocess

OBJECT = np.zeros((6, 8), np.uint8)
OBJECT[2:5, 3:7] = 1


def _png(image: Image.Image) -> bytes:
    stream = io.BytesIO()
    image.save(stream, "PNG")
    return stream.getvalue()


PALETTE = Image.fromarray(OBJECT, "P")
PALETTE.putpalette([0, 0, 0, 38, 38, 38])
OPAQUE = np.dstack([OBJECT * 255] * 3 + [np.full_like(OBJECT, 255)])
KINDS = {
    "white": Image.fromarray(OBJECT * 255),
    "zeros and ones": Image.fromarray(OBJECT),
    "two levels": Image.fromarray(OBJECT.astype(bool)),
    "palette": PALETTE,
    "cut-out": Image.fromarray(np.dstack([np.full((6, 8, 3), 90, np.uint8), OBJECT * 255]), "RGBA"),
    "white, opaque": Image.fromarray(OPAQUE, "RGBA"),
    "sixteen bits": Image.fromarray(OBJECT.astype(np.uint16) * 65535),
}


@pytest.mark.parametrize("kind", KINDS)
def test_object_is_white_however_it_was_written(kind: str) -> None:
    data = _png(KINDS[kind])
    assert np.array_equal(drawn_masks.decode_mask(data, kind), OBJECT * 255)
    assert np.array_equal(pixels.decode(drawn_masks.white(data, kind), kind, "L"), OBJECT * 255)
    assert drawn_masks.white(b"broken", kind) == b"broken"


@pytest.mark.parametrize("mode", ["L", "P"])
def test_raw_trimaps_are_no_masks(mode: str) -> None:
    trimap = Image.fromarray(np.array([[1, 2, 2], [3, 1, 2]], np.uint8), mode)
    if mode == "P":
        trimap.putpalette([0, 0, 0, 255, 0, 0, 0, 255, 0, 0, 0, 255])
    words = r"'cat\.png' is no mask: its grey levels are 1, 2, 3, .*Write all masks anew"
    with pytest.raises(UserError, match=words):
        drawn_masks.decode_mask(_png(trimap), "cat.png")


def test_pictures_in_colours_are_no_masks_and_soft_ones_stay() -> None:
    red = np.dstack([OBJECT * 200, OBJECT * 0, OBJECT * 0])
    for picture in (Image.fromarray(red), Image.fromarray(np.dstack([red, OBJECT * 0 + 255]), "RGBA")):
        with pytest.raises(drawn_masks.NoMaskError, match=r"'cat\.png' is no mask: it has colours"):
            drawn_masks.decode_mask(_png(picture), "cat.png")
    soft = np.linspace(0, 255, 48).reshape(6, 8).astype(np.uint8)
    assert np.array_equal(drawn_masks.decode_mask(_png(Image.fromarray(soft)), "soft"), soft)
    stream = io.BytesIO()  # what JPEG does to grey levels is no colour
    Image.fromarray(np.dstack([np.kron(OBJECT, np.ones((9, 9), np.uint8)) * 255] * 3)).save(stream, "JPEG")
    assert drawn_masks.decode_mask(stream.getvalue(), "cat.jpg").max() > 250


def _thing(height: int = 90, width: int = 90, level: int = 200) -> tuple[np.ndarray, np.ndarray]:
    """A photo of a thing on the left, upper side of noise, and its mask."""
    random = np.random.default_rng(0)
    mask = np.zeros((height, width), np.uint8)
    mask[10 : height // 2, 8 : width // 3] = 255
    photo = random.integers(60, 80, (height, width, 3)).astype(np.uint8)
    photo[mask > 0] = level
    return photo, mask


def _turned(photo: np.ndarray, orientation: int) -> bytes:
    stream, exif = io.BytesIO(), Image.Exif()
    exif[ExifTags.Base.Orientation] = orientation
    Image.fromarray(photo).save(stream, "PNG", exif=exif)
    return stream.getvalue()


@pytest.mark.parametrize("orientation", range(2, 9))
@pytest.mark.parametrize("shape", [(90, 90), (90, 140)])
def test_edges_tell_which_way_a_mask_was_drawn(orientation: int, shape: tuple[int, int]) -> None:
    photo, mask = _thing(*shape)
    shown = pixels.decode(pixels.upright(_turned(mask, orientation), "mask"), "mask", "L")
    with Image.open(io.BytesIO(_turned(photo, orientation))) as image:
        assert drawn_masks.is_drawn_upright(image, mask) is False
        assert drawn_masks.is_drawn_upright(image, shown) is True
        # Drawn a little beside the object, as people do it.
        assert drawn_masks.is_drawn_upright(image, np.roll(mask, (1, 1), (0, 1))) is False
    if shape == (90, 90) and orientation == 3:  # where neither shape nor edges tell, nothing is said
        with Image.open(io.BytesIO(_turned(_thing(level=70)[0], orientation))) as image:
            assert drawn_masks.is_drawn_upright(image, mask) is None


def test_mask_that_was_drawn_on_the_shown_photo_is_refused_where_the_stored_one_is_used() -> None:
    photo, mask = _thing()
    shown = mask[::-1, ::-1].copy()
    for orientation, fitting in ((3, mask), (1, shown)):
        drawn_masks.check_turned_alike(_turned(photo, orientation), fitting, "7.jpg", "Turn it.")
    with pytest.raises(UserError, match=r"'7\.jpg' carries a rotation .* Turn it"):
        drawn_masks.check_turned_alike(_turned(photo, 3), shown, "7.jpg", "Turn it.")


@pytest.mark.shared
def test_no_hand_drawn_mask_is_judged_wrongly_whichever_way_its_photo_is_turned(shared_data: Path) -> None:
    answers = []
    for file in sorted((shared_data / "hand_masks").rglob("*_image.*")):
        photo = pixels.decode(file.read_bytes(), file.name)
        mask_file = file.with_name(file.name.split("_")[0] + "_mask.png")
        mask = np.asarray(Image.open(mask_file).convert("L").resize(photo.shape[1::-1]))
        photo, mask = (pixels.centre_crop(pixels.resize_short(a, 256), 256) for a in (photo, mask))
        for orientation in range(2, 9):
            with Image.open(io.BytesIO(_turned(photo, orientation))) as image:
                answers.append(drawn_masks.is_drawn_upright(image, mask))
    assert not any(answers)
    assert answers.count(False) >= 0.9 * len(answers)


# Mixing pictures.


RNG = seeds.generator("composite")
PHOTO, BEHIND = RNG.integers(0, 256, (2, 9, 11, 3), dtype=np.uint8)
MASK = RNG.integers(0, 256, (9, 11), dtype=np.uint8)


def test_a_full_mask_shows_the_photo_and_an_empty_one_the_background() -> None:
    photo, behind = torch.from_numpy(PHOTO).float(), torch.from_numpy(BEHIND).float()
    for level, whole, seen in ((255, PHOTO, photo), (0, BEHIND, behind)):
        assert (CutOut(PHOTO, np.full_like(MASK, level)).before(BEHIND) == whole).all()
        assert torch.equal(blend(photo, torch.tensor(level / 255), behind), seen)


def test_soft_masks_stay_soft_and_are_rounded_once() -> None:
    """Against exact integers: twice the error is at most one of 255 parts of a grey level each. And against Pillow."""
    levels = np.arange(256, dtype=np.uint8)
    photo, behind = (np.repeat(p[..., None], 3, axis=2) for p in np.meshgrid(levels, levels[::5]))
    wide = photo.astype(np.int64), behind.astype(np.int64)
    for m in range(256):
        mask = np.full(photo.shape[:2], m, np.uint8)
        found = CutOut(photo, mask).before(behind)
        exact = m * wide[0] + (255 - m) * wide[1]
        assert found.dtype == np.uint8
        assert (2 * np.abs(255 * found.astype(np.int64) - exact) <= 255).all()
    pillows = Image.composite(*map(Image.fromarray, (PHOTO, BEHIND, MASK)))
    assert (CutOut(PHOTO, MASK).before(BEHIND) == np.asarray(pillows)).all()


def test_batches_are_mixed_photo_by_photo_without_a_difference() -> None:
    photos, behind = (torch.from_numpy(RNG.integers(0, 256, (5, 9, 11, 3), dtype=np.uint8)) for _ in range(2))
    photos, behind = photos.permute(0, 3, 1, 2), behind.permute(0, 3, 1, 2)
    masks = torch.from_numpy(RNG.integers(0, 256, (5, 1, 9, 11), dtype=np.uint8)).float() / 255
    mixed = blend_batch(photos, masks, behind)
    assert torch.equal(mixed, blend(photos.float(), masks, behind.float()))
    assert mixed.is_contiguous(memory_format=torch.channels_last)
    # Golden G2b, before or after normalisation: x = 200, b = 50, M = .25, mean 104 gives -16.5 both ways.
    x, b, m = (np.float64(v) for v in (200, 50, 0.25))
    assert blend(x, m, b) - 104 == blend(x - 104, m, b - 104) == -16.5


CAFFE = Preprocess(1.0, (104.0, 117.0, 128.0), (1.0, 1.0, 1.0), "bgr")
MEANS, STDS = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
IMAGENET = Preprocess(1 / 255, MEANS, STDS)


def test_preprocessing_is_scale_then_mean_then_std_one_by_one_or_together() -> None:
    # Golden G2a: RGB (10, 20, 30) becomes BGR minus the means (104, 117, 128).
    pixel = torch.tensor([10.0, 20.0, 30.0]).view(1, 3, 1, 1)
    assert CAFFE(pixel).flatten().tolist() == [-74, -97, -118]
    x = torch.from_numpy(PHOTO).permute(2, 0, 1)[None].double()
    means, stds = (torch.tensor(v, dtype=torch.float64).view(1, 3, 1, 1) for v in (MEANS, STDS))
    assert torch.allclose(IMAGENET(x), (x / 255 - means) / stds, rtol=0, atol=1e-12)
    photos = torch.from_numpy(RNG.integers(0, 256, (5, 9, 11, 3), dtype=np.uint8)).permute(0, 3, 1, 2)
    for preprocess in (CAFFE, IMAGENET):
        one_by_one = preprocess(photos)
        together = preprocess(photos.float().requires_grad_()).detach()
        assert torch.equal(one_by_one, together)
        assert torch.equal(preprocess(photos.float()), together)
        assert one_by_one.is_contiguous(memory_format=torch.channels_last)
