"""Which background stands behind a photo, and which part of it: keyed by names (docs/methods.md, section 2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bgbias import seeds
from bgbias.images import pixels


@dataclass(frozen=True)
class Draw:
    """Which background, which part of it, mirrored or not."""

    index: int
    box: pixels.RelativeBox
    flip: bool


def draw(key_set: str, repeat: int, key_item: str, sizes: list[tuple[int, int]]) -> Draw:
    """The background of image ``key_item`` in repeat ``repeat``.

    ``sizes`` are (height, width) of the pool's original photos in pool order (sorted names). With u the first 8 bytes of
    sha256("<dataset>|<split>|bg|<repeat>|<item>"), the photo is u mod the pool's size and its crop is drawn from
    ``numpy.random.default_rng(u)``.
    """
    u = seeds.number(seeds.key(key_set, "bg", repeat, key_item))
    index = u % len(sizes)
    box, flip = pixels.random_box(np.random.default_rng(u), *sizes[index])
    return Draw(index, box, flip)
