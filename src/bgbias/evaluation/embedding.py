"""From photos to embeddings: every test photo is decoded once and seen in all its views."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from bgbias.errors import UserError
from bgbias.evaluation import conditions
from bgbias.evaluation.conditions import View
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
        vectors = [batch.numpy() for batch in fetched(embedded())]
    if not vectors:
        raise UserError("There are no photos to embed; check the dataset's split in params.yaml.")
    return np.concatenate(vectors)


def embed(
    model: EmbeddingModel,
    photos: EvaluationPhotos,
    views: Sequence[View],
    device: str = "cpu",
    precision: str = "fp32",
    batch_size: int = 64,
    pooled: bool = False,
) -> Embeddings:
    """Embeddings of these views of every photo of the split, in one pass over the photos."""
    stream = photos.views(views, workers(device))
    flat = embed_views(model, stream, device, precision, batch_size, pooled)
    by_photo = flat.reshape(len(photos.table), len(views), -1)
    masked = "masks" in conditions.needs(name for name, _ in views)
    usable = np.array([not masked or i in photos.usable for i in photos.table.ids])
    of_views = {view: np.ascontiguousarray(by_photo[:, n]) for n, view in enumerate(views)}
    return Embeddings(photos.table.ids, photos.table.labels, usable, of_views)
