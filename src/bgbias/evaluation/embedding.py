"""From photos to embeddings: every test photo is decoded once and seen clean and before several other backgrounds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from bgbias.evaluation.embeddings import Embeddings
from bgbias.evaluation.photos import EvaluationPhotos, workers

if TYPE_CHECKING:
    from bgbias.models.model import EmbeddingModel


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
    from bgbias.models.inference import embed_views

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
