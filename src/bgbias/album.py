"""A dataset of the study as a model with this short side and crop sees it: photos, masks and backgrounds, opened from their
stores."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bgbias import backgrounds as pools
from bgbias import image_table, images, masking
from bgbias.conditions import Corruption
from bgbias.embedding import EvaluationPhotos
from bgbias.image_table import ImageTable
from bgbias.params import Study
from bgbias.store import ImageStore

if TYPE_CHECKING:
    from bgbias.batches import TrainingPhotos

# A split that is looked at once needs no memory of its photos.
SEEN_ONCE = 2**28


class Album:
    """Opens what is asked for, and nothing else: a method that reads no masks runs without them."""

    def __init__(
        self, study: Study, dataset: str, side: int, size: int, memory: int = images.BYTES_PER_MEMORY
    ) -> None:
        """``side``: short side of the photos in pixels; ``size``: of the crop; ``memory``: bytes of decoded photos to keep."""
        self._study, self._dataset, self._side, self._size = study, dataset, side, size
        self._memory = memory
        self._photos = images.Gallery(
            ImageStore(study.files.at("photos", dataset=dataset)), side, memory=memory
        )

    def table(self, split: str) -> ImageTable:
        """The photos of a split."""
        return image_table.read(self._study.files.at("table", dataset=self._dataset)).split(split)

    def training(self, needed: Collection[str]) -> TrainingPhotos:
        """The training split, with masks and training backgrounds where they are ``needed``."""
        from bgbias.batches import TrainingPhotos

        masks, usable = self._masks() if "masks" in needed else (None, frozenset())
        pool = self._pool("train") if "backgrounds" in needed else None
        return TrainingPhotos(self.table("train"), self._photos, self._size, masks, usable, pool)

    def evaluation(self, table: ImageTable, needed: Collection[str], role: str) -> EvaluationPhotos:
        """The photos of ``table``, with masks and the backgrounds of pool ``role`` where they are ``needed``."""
        masks, usable = self._masks() if "masks" in needed else (None, frozenset())
        corruption = self.corruption(role) if "backgrounds" in needed else None
        return EvaluationPhotos(table, self._photos, self._size, masks, usable, corruption)

    def corruption(self, role: str) -> Corruption:
        """What puts photos before the backgrounds of pool ``role``."""
        return Corruption(self._pool(role), pools.sizes(self._pool_path(role)))

    def _masks(self) -> tuple[images.Gallery, frozenset[str]]:
        files, masker = self._study.files, self._study.datasets[self._dataset].masker
        where = {"dataset": self._dataset, "masker": masker}
        policy = self._study.mask_policy
        usable = masking.usable(masking.read(files.at("mask_table", **where)), policy)
        store = ImageStore(files.at("masks", **where))
        shown = images.Gallery(
            store, self._side, "L", self._memory, lambda alpha: masking.as_used(alpha, policy)
        )
        return shown, usable & frozenset(store.ids)

    def _pool(self, role: str) -> list[np.ndarray]:
        return pools.decoded(self._pool_path(role), self._side)

    def _pool_path(self, role: str) -> Path:
        return self._study.files.at("pool", pool=self._study.datasets[self._dataset].backgrounds, role=role)
