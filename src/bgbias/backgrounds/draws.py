"""Which background stands behind a photo, and which part of it: keyed by names (docs/methods.md, section 2)."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bgbias import seeds
from bgbias.files.store import ImageStore
from bgbias.images import pixels
from bgbias.photos.picture_cache import Pictures


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


def sizes(path: Path) -> list[tuple[int, int]]:
    """(height, width) of a pool's photos as they were delivered, in pool order."""
    store = ImageStore(path)
    return [pixels.size(store.read(name), name) for name in store.ids]


class Pool:
    """Backgrounds that photos are put before; those that were used last are kept at hand."""

    def __init__(
        self, pictures: Sequence[np.ndarray] | Pictures, sizes: list[tuple[int, int]] | None = None
    ) -> None:
        """``pictures`` in pool order, uint8 [H, W, 3] each; ``sizes``: (height, width) of their originals.

        Crops are drawn for the originals' shape: a resized photo's, rounded to pixels, would differ from backbone to backbone.
        """
        self.pictures = pictures
        self._picture = pixels.cache_pictures(pictures.__getitem__)
        self._sizes = [p.shape[:2] for p in pictures] if sizes is None else sizes

    def draw(self, key: tuple[str, str], repeat: int) -> Draw:
        """What stands behind the photo of this (key_set, key_item) in repeat ``repeat``."""
        return draw(key[0], repeat, key[1], self._sizes)

    def for_all(self, count: int) -> list[Draw]:
        """At most ``count`` backgrounds that stand behind every photo alike, each seen in one part.

        With u the number of "crossing|<place in pool order>", they are those of the lowest u; the part is drawn from
        ``numpy.random.default_rng(u)``, as a photo's own is.
        """
        numbers = {index: seeds.number(seeds.key("crossing", index)) for index in range(len(self._sizes))}
        draws = []
        for index in sorted(numbers, key=numbers.__getitem__)[:count]:
            box, flip = pixels.random_box(np.random.default_rng(numbers[index]), *self._sizes[index])
            draws.append(Draw(index, box, flip))
        return draws

    def picture(self, drawn: Draw, size: int) -> np.ndarray:
        """What was drawn, uint8 [size, size, 3]."""
        return np.asarray(pixels.crop_picture(self._picture(drawn.index), drawn.box, size, drawn.flip))
