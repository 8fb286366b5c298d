"""Photos as sets of patches, ranked by late interaction (ColBERT, Khattab & Zaharia, SIGIR 2020; docs/methods.md, section 14).

The similarity of a query to a photo is the mean, over the query's patches, of the cosine to the nearest of the photo's. As in
ColBERT it is not symmetric; there it is a sum, which ranks a query's gallery alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from bgbias.errors import UserError
from bgbias.evaluation import scores
from bgbias.evaluation.conditions import CLEAN, QUERY_ONLY, SYMMETRIC, View
from bgbias.evaluation.embeddings import Embeddings, normalise

BLOCK = 2**23  # numbers in one block of similarities of patches: 32 MB
MOST = 10_000  # photos, whose similarities take 400 MB


@dataclass(frozen=True)
class PatchSets:
    """Unit vectors float32 [P, d] of all patches of N photos, photo by photo, and how many each has, int64 [N], at least one."""

    vectors: np.ndarray
    counts: np.ndarray

    @property
    def starts(self) -> np.ndarray:
        return np.cumsum(self.counts) - self.counts

    def first(self, photos: int) -> PatchSets:
        """The patches of so many photos."""
        counts = self.counts[:photos]
        return PatchSets(self.vectors[: counts.sum()], counts)

    def means(self) -> np.ndarray:
        """Unit vectors float32 [N, d]: in a gallery with one vector a photo they rank as their patches do."""
        return normalise(np.add.reduceat(self.vectors, self.starts, axis=0))


def refuse_many(photos: int, dataset: str) -> None:
    """UserError if similarities of all to all would not fit into memory."""
    if photos > MOST:
        raise UserError(
            f"Cure patchwise compares each photo with each, and '{dataset}' has {photos} test photos; it takes {MOST} at most."
            " Take it out of cures.names of this grid."
        )


def similarity(queries: PatchSets, gallery: PatchSets) -> np.ndarray:
    """float32 [N, M]; to the last bits as the machine computes it."""
    similarities = np.empty((len(queries.counts), len(gallery.counts)), np.float32)
    ends = np.cumsum(queries.counts)
    step = max(1, BLOCK // (len(gallery.vectors) * int(queries.counts.max())))
    for first in range(0, len(similarities), step):
        photos = slice(first, first + step)
        starts = queries.starts[photos]
        vectors = queries.vectors[starts[0] : ends[photos][-1]]
        nearest = np.maximum.reduceat(vectors @ gallery.vectors.T, gallery.starts, axis=1)
        similarities[photos] = np.add.reduceat(nearest, starts - starts[0], axis=0)
    return similarities / queries.counts[:, None].astype(np.float32)


def score_queries(
    before: Embeddings, patches: Mapping[View, PatchSets], model: Mapping[str, object]
) -> pd.DataFrame:
    """``scores.score_queries`` of the same photos as ``patches``: in each view among each other, and as queries in the clean
    gallery of ``before``, which has one vector a photo.
    """
    # A query's similarities, at unit length, are its cosines to unit vectors, of which each photo is one. So retrieval, which is
    # of embeddings, ranks by them.
    photos = np.eye(len(before.ids), dtype=np.float32)
    among = {view: normalise(similarity(sets, sets)) for view, sets in patches.items()}
    embedded = replace(before, views=among, donors={})
    alike = scores.score_queries(embedded, model, photos)
    means = {view: sets.means() for view, sets in patches.items()}
    in_old = scores.score_queries(replace(before, views=means, donors={}), model, before.views[CLEAN, 0])
    parts = [part[part["setting"] == QUERY_ONLY] for part in (alike, in_old)]
    across = scores.score_places(embedded, model, photos)
    return pd.concat([parts[0].assign(setting=SYMMETRIC), parts[1], *across], ignore_index=True)
