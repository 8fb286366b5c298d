"""Does the dataset leak: do backgrounds alone tell the class, to something that has learned nothing?

The neutral encoder is a descriptor without weights: mean and spread of colour, and directions of edges, on a coarse grid.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from bgbias.evaluation import scores
from bgbias.evaluation.conditions import CLEAN
from bgbias.evaluation.embeddings import Embeddings
from bgbias.evaluation.metrics import map_at_r
from bgbias.evaluation.photos import EvaluationPhotos
from bgbias.results import uncertainty
from bgbias.results.rows import MAP_AT_R
from bgbias.results.uncertainty import Estimate

BACKGROUND_ALONE = "only_bg"
GRID, SIDE, DIRECTIONS = 4, 64, 8


@dataclass(frozen=True)
class Leak:
    """MAP@R of backgrounds alone among backgrounds alone, 0..1, ``by_chance`` and how much ``more``, with its interval."""

    by_chance: float
    more: Estimate

    @property
    def found(self) -> bool:
        """Whether backgrounds tell the class beyond chance."""
        return self.more.low > 0


def of(photos: EvaluationPhotos) -> Leak:
    """Of the photos with a trusted mask, each without its object."""
    rows = photos.trusted
    alone = (next(photos.views([(BACKGROUND_ALONE, 0)], rows=range(row, row + 1))) for row in rows)
    vectors = standardised(np.stack([described(picture) for picture in alone]))
    labels = photos.table.labels[rows]
    ids = [photos.table.ids[row] for row in rows]
    embeddings = Embeddings(ids, labels, np.ones(len(ids), bool), {(CLEAN, 0): vectors})
    found = scores.of_queries(embeddings, {})
    relevant = found["label"].map(pd.Series(labels).value_counts()).to_numpy() - 1
    chance = map_at_r.by_chance(relevant, len(labels) - 1)
    more = uncertainty.estimate(
        [found[MAP_AT_R].to_numpy(), chance], found["label"].to_numpy(), uncertainty.difference
    )
    return Leak(float(np.nanmean(chance)), more)


def described(picture: np.ndarray) -> np.ndarray:
    """A picture uint8 [S, S, 3] as float64 [GRID² (6 + DIRECTIONS)]: of each cell the means and standard deviations of CIELAB,
    and how strong its edges are by direction.
    """
    import cv2

    small = cv2.resize(picture, (SIDE, SIDE), interpolation=cv2.INTER_AREA)
    lab = cv2.cvtColor(small.astype(np.float32) / 255, cv2.COLOR_RGB2LAB) / 100
    across, up = (cv2.Sobel(lab[..., 0], cv2.CV_32F, x, 1 - x) for x in (1, 0))
    strength, angle = cv2.cartToPolar(across, up)
    bins = (angle % np.pi * (DIRECTIONS / np.pi)).astype(int) % DIRECTIONS
    edges = strength[..., None] * (bins[..., None] == np.arange(DIRECTIONS))
    cells = np.concatenate([lab, edges], axis=-1).reshape(GRID, SIDE // GRID, GRID, SIDE // GRID, -1)
    means, spread = cells.mean((1, 3)), cells[..., :3].std((1, 3))
    return np.concatenate([means, spread], axis=-1).ravel().astype(np.float64)


def standardised(vectors: np.ndarray) -> np.ndarray:
    """Vectors [N, D], each number in standard deviations from its mean, of unit length, float32; numbers that are the same for
    all count for nothing.
    """
    apart = (vectors - vectors.mean(0)) / np.maximum(vectors.std(0), 1e-9)
    lengths = np.linalg.norm(apart, axis=1, keepdims=True)
    return (apart / np.maximum(lengths, 1e-12)).astype(np.float32)
