"""Which background stands behind a photo, and which part of it: by names alone (docs/methods.md, section 2)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bgbias import seeds
from bgbias.backgrounds import draws
from bgbias.files.store import writing
from bgbias.images import pixels
from bgbias.photos import picture_cache

HUNDRED = [(320, 427)] * 100


@pytest.mark.parametrize(
    ("key_set", "repeat", "item", "index"),
    # Golden G2c: the photo behind, in a pool of 100.
    [
        ("cub200|test", 0, "0", 74),
        ("cub200|test", 0, "1", 95),
        ("cub200|test", 4, "5923", 44),
        ("sop|test", 2, "60501", 76),
    ],
)
def test_the_published_draws(key_set: str, repeat: int, item: str, index: int) -> None:
    drawn, u = draws.draw(key_set, repeat, item, HUNDRED), seeds.number(f"{key_set}|bg|{repeat}|{item}")
    assert drawn.index == index == u % 100
    assert (drawn.box, drawn.flip) == pixels.random_box(np.random.default_rng(u), 320, 427)
    assert draws.draw(key_set, repeat, item, HUNDRED[:3]).index == u % 3


def test_draws_and_photos_differ() -> None:
    drawn = [draws.draw("cub200|test", r, str(i), HUNDRED) for r in range(5) for i in range(40)]
    assert len({d.box for d in drawn}) == 200
    assert len({d.index for d in drawn}) > 70


def test_every_backbone_sees_the_same_crop(tmp_path: Path) -> None:
    """A short side of 36 rounds a picture's shape otherwise than one of 640; the draw must not notice."""
    y, x = np.mgrid[0:90, 0:137]
    waves = np.stack([np.sin(x / 40 + k) + np.cos(y / 30 - k) for k in range(3)], axis=2)
    with writing(tmp_path / "pool.zip") as store:
        store.add("waves.png", pixels.encode_png(np.rint(127.5 + 63 * waves).astype(np.uint8)))
    sizes = draws.sizes(tmp_path / "pool.zip")
    assert sizes == [(90, 137)]
    small, large = (
        draws.Pool(picture_cache.pictures(tmp_path / "pool.zip", side, tmp_path / "prepared"), sizes)
        for side in (36, 640)
    )
    for item in range(40):
        key = ("own|test", str(item))
        seen = [pool.picture(pool.draw(key, 0), 32).astype(int) for pool in (small, large)]
        assert np.abs(seen[0] - seen[1]).max() <= 6
