"""From photos to embeddings: every test photo is decoded once and seen clean and before several other backgrounds."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from bgbias.errors import UserError
from bgbias.evaluation.embeddings import Embeddings
from bgbias.evaluation.photos import EvaluationPhotos, workers

if TYPE_CHECKING:
    from bgbias.models.model import EmbeddingModel


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

    from bgbias.compute.device import autocast
    from bgbias.compute.overlap import ahead, fetched, sent

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
