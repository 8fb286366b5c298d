"""Quilted textures: cuts against all paths, and what a texture is made of (Efros & Freeman, SIGGRAPH 2001)."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from bgbias.images import quilting


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
