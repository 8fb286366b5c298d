"""Procedural background photos: empty scenes that no photo of a dataset shows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bgbias.toy import scenes

ROLES = ("train", "val", "test", "masker")


# Evaluation and training show crops of .16 to 1 of a background's area (METHODS section 1), side .4 to 1: of so wide a photo
# these have about the scale that scenes have in the dataset.
_EXTENT = 1.6


def pool(role: str, count: int, size: int, seed: int = 0) -> Iterator[tuple[str, np.ndarray]]:
    """``count`` backgrounds of a role (train, val, test, masker): name and uint8 RGB [size, size, 3], in order of names.

    Every background is a scene of its own; roles share none, and a larger pool begins with the smaller one.
    """
    if role not in ROLES:
        raise ValueError(f"role {role!r} is none of {', '.join(ROLES)}")
    for n in range(count):
        picture = scenes.photograph(
            scenes.scene(f"{role} pool", n, seed), scenes.glance("pool", seed, role, n), size, _EXTENT
        )
        yield f"toy_{role}_{n:03d}", np.rint(picture * 255).astype(np.uint8)
