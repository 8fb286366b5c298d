"""Which background stands behind a photo, and what generated ones are: by names alone (docs/methods.md, section 2)."""

from pathlib import Path

import numpy as np
import pytest

from bgbias import seeds
from bgbias.backgrounds import draws
from bgbias.backgrounds.generated import pictures
from bgbias.backgrounds.settings import PROCEDURAL
from bgbias.files.store import writing
from bgbias.images import pixels
from bgbias.photos import picture_cache

HUNDRED = [(320, 427)] * 100
SIZE = 48


def test_the_published_draws() -> None:
    """Golden G2c: the photo behind, in a pool of 100."""
    of_cub, of_sop = "cub200|test", "sop|test"
    published = [
        (of_cub, 0, "0", 74),
        (of_cub, 0, "1", 95),
        (of_cub, 4, "5923", 44),
        (of_sop, 2, "60501", 76),
    ]
    for key_set, repeat, item, index in published:
        drawn, u = draws.draw(key_set, repeat, item, HUNDRED), seeds.number(f"{key_set}|bg|{repeat}|{item}")
        assert drawn.index == index == u % 100
        assert (drawn.box, drawn.flip) == pixels.random_box(np.random.default_rng(u), 320, 427)
        assert draws.draw(key_set, repeat, item, HUNDRED[:3]).index == u % 3


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


@pytest.mark.parametrize("kind", PROCEDURAL)
def test_a_larger_pool_begins_with_the_smaller_one_and_roles_share_no_picture(kind: str) -> None:
    large, small = list(pictures(kind, 12, "train", SIZE)), list(pictures(kind, 5, "train", SIZE))
    assert [n for n, _ in large] == sorted(n for n, _ in large)
    assert all(p.shape == (SIZE, SIZE, 3) and p.dtype == np.uint8 for _, p in large)
    for (a, first), (b, second) in zip(small, large, strict=False):
        assert a == b
        assert np.array_equal(first, second)
    roles = ("train", "val", "test")
    every = [p.tobytes() for role in roles for _, p in pictures(kind, 12, role, SIZE)]
    assert len(set(every)) == 36
