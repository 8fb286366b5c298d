"""Who is asked among whom, where a dataset says so: person re-identification has queries, a gallery and cameras."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class QueryGallerySplit:
    """``query`` and ``gallery`` bool [N]: which photos are asked, and among which; ``camera`` int64 [N]: which one took each, -1
    where that is not known.
    """

    query: np.ndarray
    gallery: np.ndarray
    camera: np.ndarray

    @classmethod
    def all_among_all(cls, photos: int) -> QueryGallerySplit:
        """Every photo is asked among all others."""
        return cls(np.ones(photos, bool), np.ones(photos, bool), np.full(photos, -1))

    def searched(self, rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Among which photos those in ``rows`` [Q] are asked, bool [Q, N]: the gallery without the photo itself, and without
        those of its class by the same camera. ``labels`` [N]: everybody's class.
        """
        camera = self.camera[rows, None]
        same = (labels[rows, None] == labels) & (camera == self.camera) & (camera >= 0)
        candidates: np.ndarray = self.gallery & ~same & (rows[:, None] != np.arange(len(labels)))
        return candidates

    def relevant(self, labels: np.ndarray) -> np.ndarray:
        """How many photos each one would have to find, int64 [N]; 0 for those that are not asked."""
        counts = np.zeros(len(labels), np.int64)
        for row in np.flatnonzero(self.query):
            at = np.array([row])
            counts[row] = (self.searched(at, labels)[0] & (labels == labels[row])).sum()
        return counts
