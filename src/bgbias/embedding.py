"""From photos to embeddings: every test photo is decoded once and seen clean and before several other backgrounds."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bgbias import images
from bgbias.conditions import Corruption
from bgbias.embeddings import Embeddings
from bgbias.errors import UserError
from bgbias.image_table import ImageTable
from bgbias.prepared import Pictures, threads

if TYPE_CHECKING:
    from bgbias.model import EmbeddingModel

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
        return images.centre_crop(self.photos.get(image_id), self.size)

    def mask(self, image_id: str) -> np.ndarray:
        """The mask's centre crop, uint8 [S, S]; a mask of another size than its photo's is an error."""
        if self.masks is None:
            raise ValueError("these photos were opened without masks")
        mask, photo = self.masks.get(image_id), self.photos.get(image_id)
        if mask.shape != photo.shape[:2]:
            raise UserError(
                f"The mask of '{image_id}' is {mask.shape}, its photo {photo.shape[:2]}; remake the masks."
            )
        return images.centre_crop(mask, self.size)

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


def embed_views(
    model: EmbeddingModel,
    views: Iterator[np.ndarray],
    device: str = "cpu",
    precision: str = "fp32",
    batch_size: int = 64,
    pooled: bool = False,
) -> np.ndarray:
    """Embeddings float32 [N, D] of N views; with ``pooled``, the backbone's mean features at unit length instead.

    The next batch is composed and sent while the last one goes through the network.
    """
    import torch

    from bgbias.device import autocast
    from bgbias.overlap import ahead, fetched, sent

    def batches() -> Iterator[torch.Tensor]:
        while gathered := list(itertools.islice(views, batch_size)):
            yield torch.from_numpy(np.stack(gathered))

    def embedded() -> Iterator[torch.Tensor]:
        look = model.pooled if pooled else model
        for x in ahead(batches(), device, sent):
            seen = model.preprocess(x.permute(0, 3, 1, 2)).contiguous(memory_format=torch.channels_last)
            yield look(seen).float()

    with torch.inference_mode(), autocast(device, precision):
        made = [found.numpy() for found in fetched(embedded())]
    if not made:
        raise UserError("There are no photos to embed; check the dataset's split in params.yaml.")
    return np.concatenate(made)


def embed(
    model: EmbeddingModel,
    photos: EvaluationPhotos,
    draws: int,
    device: str = "cpu",
    precision: str = "fp32",
    batch_size: int = 64,
    pooled: bool = False,
    views: Iterator[np.ndarray] | None = None,
) -> Embeddings:
    """Clean and ``draws`` corrupted embeddings of every photo of the split, in one pass over the photos."""
    stream = photos.views(range(draws), workers=workers(device)) if views is None else views
    flat = embed_views(model, stream, device, precision, batch_size, pooled)
    shaped = flat.reshape(len(photos.table), 1 + draws, -1)
    usable = np.array([i in photos.usable for i in photos.table.ids])
    return Embeddings(
        photos.table.ids,
        photos.table.labels,
        usable,
        np.ascontiguousarray(shaped[:, 0]),
        np.ascontiguousarray(shaped[:, 1:].transpose(1, 0, 2)),
    )
