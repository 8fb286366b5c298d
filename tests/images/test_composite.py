"""Pictures made of pictures: mixed by masks, and quilted of their windows (Efros & Freeman, SIGGRAPH 2001)."""

import itertools

import numpy as np
import pytest
import torch
from PIL import Image

from bgbias import seeds
from bgbias.images import quilting
from bgbias.images.composite import CutOut, blend, blend_batch
from bgbias.models.preprocess import Preprocess

RNG = seeds.generator("composite")
PHOTO, BEHIND = RNG.integers(0, 256, (2, 9, 11, 3), dtype=np.uint8)
MASK = RNG.integers(0, 256, (9, 11), dtype=np.uint8)


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


# Quilted textures.


@pytest.mark.parametrize("seed", range(5))
def test_a_cut_is_the_path_of_least_error(seed: int) -> None:
    errors = np.random.default_rng(seed).random((6, 4), dtype=np.float32)
    starts = [(first, way) for first in range(4) for way in itertools.product((-1, 0, 1), repeat=5)]
    paths = ([first, *(first + s for s in itertools.accumulate(way))] for first, way in starts)
    inside = [path for path in paths if min(path) >= 0 and max(path) < 4]
    best = min(inside, key=lambda path: sum(errors[row, column] for row, column in enumerate(path)))
    assert quilting.before_cut(errors).sum(1).tolist() == best


@pytest.mark.parametrize("size", [(8, 9), (50, 90)])
def test_a_texture_is_made_of_two_windows_and_nothing_else(size: tuple[int, int]) -> None:
    def colours(picture: np.ndarray) -> set[bytes]:
        return {pixel.tobytes() for pixel in picture.reshape(-1, 3)}

    photo = np.random.default_rng(1).integers(0, 256, (*size, 3), dtype=np.uint8)
    made = quilting.texture(photo)
    assert made.shape == photo.shape
    assert colours(made) <= colours(photo)
    share = len(colours(made)) / len(colours(photo))
    # Of two windows that may overlap; of a few pixels they are hardly larger than a block.
    assert share < 2.2 * (96 / 224) ** 2 or size == (8, 9)
    assert np.array_equal(quilting.texture(photo), made)
    assert not np.array_equal(quilting.texture(photo[:, ::-1].copy()), made)


def test_a_pattern_goes_on_without_a_seam() -> None:
    """A grid of dots that a continuation can meet exactly: every block that is put goes on with it."""
    place = np.arange(24)
    dots = ((place[:, None] % 5 == 0) & (place % 5 == 0))[..., None] * np.uint8([200, 100, 50])
    made = quilting.quilt([dots.astype(np.uint8)], (60, 70), 12, 6, np.random.default_rng(2))
    first = np.argwhere(made[:5, :5, 0])[0]
    whole = np.arange(70)
    wanted = ((whole[:60, None] - first[0]) % 5 == 0) & ((whole - first[1]) % 5 == 0)
    assert np.array_equal(made[..., 0] > 0, wanted)
