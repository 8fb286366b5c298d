"""Drawn backgrounds: what their name says, the same every time, and none in two pools."""

from __future__ import annotations

import numpy as np
import pytest

from bgbias.backgrounds.generated import pictures
from bgbias.backgrounds.settings import PROCEDURAL

SIZE = 48


def drawn(kind: str, role: str, count: int = 12) -> list[np.ndarray]:
    return [picture for _, picture in pictures(kind, count, role, SIZE)]


@pytest.mark.parametrize("kind", PROCEDURAL)
def test_a_larger_pool_begins_with_the_smaller_one_and_roles_share_no_picture(kind: str) -> None:
    large, small = list(pictures(kind, 12, "train", SIZE)), list(pictures(kind, 5, "train", SIZE))
    assert [n for n, _ in large] == sorted(n for n, _ in large)
    assert all(p.shape == (SIZE, SIZE, 3) and p.dtype == np.uint8 for _, p in large)
    for (a, first), (b, second) in zip(small, large, strict=False):
        assert a == b
        assert np.array_equal(first, second)
    every = [p.tobytes() for role in ("train", "val", "test") for p in drawn(kind, role)]
    assert len(set(every)) == 36


def test_colours_are_plain_and_gradients_smooth_and_textures_neither() -> None:
    steps = {
        kind: [np.abs(np.diff(p.astype(int), axis=1)).max() for p in drawn(kind, "test")]
        for kind in ("colours", "gradients", "textures")
    }
    assert max(steps["colours"]) == 0
    assert 0 < max(steps["gradients"]) <= 16  # 255 grey levels over 48 pixels, three colours
    assert np.median(steps["textures"]) > 16
    # Hues of a pool differ.
    means = np.array([p.mean(axis=(0, 1)) for p in drawn("colours", "train")])
    distances = np.abs(means[:, None] - means[None]).sum(axis=2)[np.triu_indices(len(means), 1)]
    assert distances.min() > 3
    assert np.median(distances) > 60
