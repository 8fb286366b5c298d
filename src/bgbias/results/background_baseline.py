"""Does the dataset leak: do backgrounds alone tell the class, to a descriptor that has learned nothing?

It looks at what lies outside of the masks and nowhere else, and knows neither where in the photo that is nor how much of it there
is: the shape of what was left out must not tell the class.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from bgbias import seeds
from bgbias.evaluation import scores
from bgbias.evaluation.conditions import CLEAN
from bgbias.evaluation.embeddings import Embeddings
from bgbias.evaluation.metrics import OTHERS, map_at_r
from bgbias.evaluation.photos import EvaluationPhotos
from bgbias.results import uncertainty
from bgbias.results.rows import MAP_AT_R
from bgbias.results.uncertainty import Estimate

SIDE = 96
ROOM = 5  # pixels around the mask that are left out as well: edges and halos of the object
COLOURS, DIRECTIONS = (4, 6, 6), 8  # bins of CIELAB's L, a and b; of edges
TIES = 1e-5  # far below what a bin of either histogram makes


@dataclass(frozen=True)
class Leak:
    """MAP@R of backgrounds alone, 0..1: ``by_chance``, and how much ``more``, with its interval."""

    by_chance: float
    more: Estimate

    @property
    def found(self) -> bool:
        """Whether backgrounds tell the class significantly; False where that cannot be tested, too."""
        return self.more.low > 0


def measure_leak(photos: EvaluationPhotos) -> Leak | None:
    """Of the photos with a trusted mask; None if none of them has another one of its class."""
    rows = photos.trusted
    labels, ids = photos.table.labels[rows], [photos.table.ids[row] for row in rows]
    if len(np.unique(labels)) == len(labels):
        return None
    vectors = np.stack([describe_background(photos.clean(i), photos.mask(i)) for i in ids])
    # Walls that are the same are in no order: not in that of their classes.
    vectors = vectors + TIES * seeds.generator("background alone").standard_normal(vectors.shape, np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    alone = Embeddings(ids, labels, np.ones(len(ids), bool), {(CLEAN, 0): vectors})
    queries = scores.score_queries(alone, {})
    relevant = queries["label"].map(pd.Series(labels).value_counts()).to_numpy() - 1
    chance = map_at_r.chance_level(relevant, len(labels) - 1)
    more = uncertainty.estimate(
        [queries[MAP_AT_R].to_numpy(), chance],
        queries["label"].to_numpy(),
        uncertainty.difference,
        [queries[OTHERS].to_numpy(), np.zeros(len(queries))],
    )
    return Leak(float(np.nanmean(chance)), more)


def describe_background(photo: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """What lies outside of a mask uint8 [S, S] in a photo uint8 [S, S, 3]: square roots of two histograms, of colours in CIELAB
    and of the directions of edges by their strength, float32 of unit length, so that the cosine of two is the mean of their
    Bhattacharyya coefficients (Bhattacharyya 1943). What is covered to the last pixel is grey.
    """
    import cv2

    small = cv2.resize(photo, (SIDE, SIDE), interpolation=cv2.INTER_AREA)
    covered = cv2.resize(mask, (SIDE, SIDE), interpolation=cv2.INTER_AREA) > 0
    covered = cv2.dilate(covered.astype(np.uint8), np.ones((2 * ROOM + 1, 2 * ROOM + 1), np.uint8)) > 0
    lab = cv2.cvtColor(small.astype(np.float32) / 255, cv2.COLOR_RGB2LAB)
    visible = lab[~covered] if not covered.all() else np.array([[50, 0, 0]], np.float32)
    # All of sRGB lies within these: L in 0..100, a and b in -110..110.
    colours, _ = np.histogramdd(visible, COLOURS, [(0, 100.001), (-110, 110), (-110, 110)])
    across, up = (cv2.Sobel(lab[..., 0], cv2.CV_32F, x, 1 - x)[~covered] for x in (1, 0))
    edges, _ = np.histogram(
        np.arctan2(up, across) % np.pi, DIRECTIONS, (0, np.pi), weights=np.hypot(across, up)
    )
    parts = [colours.ravel(), edges if edges.sum() else np.ones(DIRECTIONS)]
    return np.concatenate([np.sqrt(part / part.sum() / len(parts)) for part in parts]).astype(np.float32)
