"""Objects on the same backgrounds each, fully crossed: what single backgrounds do to what a model retrieves.

n test photos with a trusted mask, m backgrounds of the pool, one part of each: the same n x m pictures for every model
(docs/methods.md, sections 9 and 13). How much of what an embedding says is the object, and how much the background, is a two-way
layout without labels: components are those of a random-effects analysis of variance (Searle, Casella & McCulloch, Variance
Components, 1992, section 4.3), their traces over the dimensions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from bgbias.errors import UserError
from bgbias.evaluation.conditions import CLEAN
from bgbias.evaluation.embeddings import Embeddings
from bgbias.evaluation.metrics import map_at_r
from bgbias.evaluation.photos import EvaluationPhotos
from bgbias.evaluation.whole_gallery import first_ranks
from bgbias.files.atomic import replacing
from bgbias.models.settings import USUAL, How
from bgbias.photos.query_gallery import QueryGallerySplit
from bgbias.photos.table import ImageTable

if TYPE_CHECKING:
    from bgbias.models.model import EmbeddingModel


@dataclass(frozen=True)
class CrossedEmbeddings:
    """ids [n] of the objects' photos; backgrounds int64 [m], their places in the pool; vectors float32 [n, m, d]."""

    ids: list[str]
    backgrounds: np.ndarray
    vectors: np.ndarray

    def write(self, path: Path) -> None:
        with replacing(path) as temporary, temporary.open("wb") as file:
            np.savez(file, ids=np.array(self.ids), backgrounds=self.backgrounds, vectors=self.vectors)


def objects(photos: EvaluationPhotos, count: int) -> ImageTable:
    """At most ``count`` of the split's photos with a trusted mask; fewer than two are an error."""
    rows, split = photos.trusted, photos.table.given
    if split is not None:
        rows = rows[split.query[rows]]
    chosen = photos.table.rows(rows).keyed("crossing", count)
    if len(chosen) < 2:
        raise UserError(
            f"{len(chosen)} photos have a trusted mask, and crossing takes two: look at the masks (docs/masks.md), or set"
            " crossing.objects to null."
        )
    return chosen


def embed(
    model: EmbeddingModel, photos: EvaluationPhotos, table: ImageTable, backgrounds: int, how: How = USUAL
) -> CrossedEmbeddings:
    """Embeddings of the photos in ``table``, each on the same ``backgrounds`` of the pool, all if it has fewer."""
    from bgbias.models.inference import embed_views

    assert photos.backgrounds is not None  # whoever crosses opens them
    drawn = photos.backgrounds.for_all(backgrounds)
    if len(drawn) < 2:
        raise UserError(
            "The pool has one background, and crossing takes two: add photos to it, or set crossing.objects to null."
        )
    pictures = [photos.backgrounds.picture(draw, photos.size) for draw in drawn]
    flat = embed_views(model, views(photos, table.ids, pictures), how)
    vectors = flat.reshape(len(table), len(drawn), -1)
    return CrossedEmbeddings(table.ids, np.array([draw.index for draw in drawn], np.int64), vectors)


def views(photos: EvaluationPhotos, ids: Sequence[str], pool: Sequence[np.ndarray]) -> Iterator[np.ndarray]:
    """Each of the photos on each background of ``pool`` uint8 [S, S, 3], background by background: uint8 [S, S, 3] each."""
    row_of = {name: row for row, name in enumerate(photos.table.ids)}
    for name in ids:
        cut_out = photos.photo(row_of[name]).foreground
        for background in pool:
            yield cut_out.before(background)


def score_queries(crossed: CrossedEmbeddings, gallery: Embeddings) -> pd.DataFrame:
    """A row for each object and background: ``image_id``, ``label``, ``background``, ``map_at_r`` of this query in the clean
    gallery, its own photo left out, and ``cosine``, how near the query is to its own photo as it was taken.
    """
    n, m = crossed.vectors.shape[:2]
    clean, labels = gallery.views[CLEAN, 0], gallery.labels
    row_of = {name: row for row, name in enumerate(gallery.ids)}
    rows = np.array([row_of[name] for name in crossed.ids])
    repeated = np.repeat(rows, m)
    queries = crossed.vectors.reshape(n * m, -1)
    ranked = first_ranks(
        queries, repeated, clean, labels, gallery.given or QueryGallerySplit.all_among_all(len(labels))
    )
    cosine = np.einsum("nmd,nd->nm", crossed.vectors.astype(np.float64), clean[rows].astype(np.float64))
    return pd.DataFrame(
        {
            "image_id": np.repeat(np.array(crossed.ids, object), m),
            "label": labels[repeated],
            "background": np.tile(crossed.backgrounds, n),
            "map_at_r": map_at_r.per_query(ranked),
            "cosine": cosine.ravel(),
        }
    )


@dataclass(frozen=True)
class Shares:
    """Variance components as shares of their sum, 0..1: of the ``object``, the ``background``, and their ``interaction``.

    ``negative``: the components whose estimate was below 0, which count as 0.
    """

    object: float
    background: float
    interaction: float
    negative: tuple[str, ...] = ()


def shares(crossed: np.ndarray) -> Shares:
    """Shares of variance of embeddings [n, m, d] of n objects on m backgrounds, at least two of each; all three are NaN where all
    embeddings are the same.
    """
    n, m = crossed.shape[:2]
    values = crossed.reshape(n, m, -1).astype(np.float64)
    mean = values.mean(axis=(0, 1))
    of_objects, of_backgrounds = values.mean(axis=1) - mean, values.mean(axis=0) - mean
    rest = values - mean - of_objects[:, None] - of_backgrounds
    noise = np.square(rest).sum() / ((n - 1) * (m - 1))
    estimates = {
        "object": (m * np.square(of_objects).sum() / (n - 1) - noise) / m,
        "background": (n * np.square(of_backgrounds).sum() / (m - 1) - noise) / n,
        "interaction": noise,
    }
    components = {name: max(0.0, float(value)) for name, value in estimates.items()}
    total = sum(components.values())
    parts = {name: value / total if total else float("nan") for name, value in components.items()}
    return Shares(**parts, negative=tuple(name for name, value in estimates.items() if value < 0))
