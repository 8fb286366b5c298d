"""The photos of one evaluation, decoded once each and seen in every view."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from bgbias.compute.device import threads
from bgbias.errors import UserError
from bgbias.evaluation.conditions.random_background import Corruption
from bgbias.images import pixels
from bgbias.photos.prepared import Pictures
from bgbias.photos.table import ImageTable

PHOTOS_AHEAD = 8  # of each worker


@dataclass(frozen=True)
class EvaluationPhotos:
    """A split as evaluation shows it to a model with this short side and crop."""

    table: ImageTable
    photos: Pictures
    size: int
    masks: Pictures | None = None
    usable: frozenset[str] = frozenset()
    corruption: Corruption | None = None

    def clean(self, image_id: str) -> np.ndarray:
        """The centre crop, uint8 [S, S, 3]."""
        return pixels.centre_crop(self.photos.get(image_id), self.size)

    def mask(self, image_id: str) -> np.ndarray:
        """The mask's centre crop, uint8 [S, S]; a mask of another size than its photo's is an error."""
        if self.masks is None:
            raise ValueError("these photos were opened without masks")
        mask, photo = self.masks.get(image_id), self.photos.get(image_id)
        if mask.shape != photo.shape[:2]:
            raise UserError(
                f"The mask of '{image_id}' is {mask.shape}, its photo {photo.shape[:2]}; remake the masks."
            )
        return pixels.centre_crop(mask, self.size)

    def views(self, draws: range, clean: bool = True, workers: int = 1) -> Iterator[np.ndarray]:
        """For each photo in turn: its clean view, if wanted, then one view a draw; uint8 [S, S, 3] each.

        A photo without a trusted mask keeps its own background in every draw. ``workers`` threads make them, in the same order.
        """
        named = zip(self.table.ids, self.table.keys, strict=True)
        if workers == 1:
            for image_id, key in named:
                yield from self._of_photo(image_id, key, draws, clean)
            return
        with ThreadPoolExecutor(workers) as pool:
            while some := list(itertools.islice(named, workers * PHOTOS_AHEAD)):
                for made in pool.map(
                    lambda photo: list(self._of_photo(photo[0], photo[1], draws, clean)), some
                ):
                    yield from made

    def _of_photo(
        self, image_id: str, key: tuple[str, str], draws: range, clean: bool
    ) -> Iterator[np.ndarray]:
        view = self.clean(image_id)
        if clean:
            yield view
        if self.corruption is not None and image_id in self.usable and len(draws):
            yield from self.corruption.draws(view, self.mask(image_id), key, draws)
        else:
            yield from itertools.repeat(view, len(draws))


def workers(device: str) -> int:
    """Threads that make views: beside a network on the CPU, more than one would only take its cores."""
    return threads() if device.startswith("cuda") else 1
