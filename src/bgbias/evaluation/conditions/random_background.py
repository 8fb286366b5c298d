"""What evaluation shows a model: the photo as it is, and its object before other backgrounds.

The corrupted picture of (dataset, split, draw, image) is a pure function of those names: the same for every model, batch
size, worker count and input size, so that models are compared on the same pictures (METHODS section 2, golden G2c).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from bgbias.backgrounds.draws import Draw, draw
from bgbias.images import pixels
from bgbias.images.composite import CutOut
from bgbias.photos.prepared import Pictures

CLEAN = "clean"
RANDOM_BACKGROUND = "random_background"


class Corruption:
    """Replaces backgrounds in evaluation views, photo by photo."""

    def __init__(
        self, pool: Sequence[np.ndarray] | Pictures, sizes: list[tuple[int, int]] | None = None
    ) -> None:
        """``pool``: decoded backgrounds in pool order, uint8 [H, W, 3] each; ``sizes``: (height, width) of their originals.

        Crops are drawn for the originals' shape: a resized photo's, rounded to pixels, would differ from backbone to backbone.
        """
        self._image = pixels.kept(pool.__getitem__)
        self._sizes = [p.shape[:2] for p in pool] if sizes is None else sizes

    def __call__(self, view: np.ndarray, mask: np.ndarray, key: tuple[str, str], repeat: int) -> np.ndarray:
        """The view [S, S, 3] with the background of draw ``repeat`` behind its mask [S, S]: uint8 [S, S, 3]."""
        return next(self.draws(view, mask, key, range(repeat, repeat + 1)))

    def draws(
        self, view: np.ndarray, mask: np.ndarray, key: tuple[str, str], repeats: range
    ) -> Iterator[np.ndarray]:
        """The same for several draws, one after the other."""
        return self.before(view, mask, (draw(key[0], r, key[1], self._sizes) for r in repeats))

    def before(self, view: np.ndarray, mask: np.ndarray, drawn: Iterable[Draw]) -> Iterator[np.ndarray]:
        """The same for backgrounds that are given."""
        size = view.shape[0]
        shown = CutOut(view, mask)
        for d in drawn:
            behind = pixels.cropped(self._image(d.index), d.box, size, d.flip)
            yield shown.before(np.asarray(behind))
