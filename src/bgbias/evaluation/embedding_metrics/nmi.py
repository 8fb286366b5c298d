"""NMI: how well k-means finds the classes, by normalised mutual information (Manning, Raghavan & Schütze 2008, section 16.3;
docs/methods.md, section 8)."""

from __future__ import annotations

import numpy as np

from bgbias.evaluation.clustering import clusters

TITLE = "NMI"


def of_embeddings(embeddings: np.ndarray, labels: np.ndarray) -> float:
    """Between the classes and as many clusters, 0..1."""
    return normalized_mutual_information(labels, clusters(embeddings, len(np.unique(labels))))


def normalized_mutual_information(one: np.ndarray, other: np.ndarray) -> float:
    """2 I / (H + H') of two labellings [N] of the same things; 1 where neither tells any of them apart."""
    (a, first), (b, second) = (np.unique(labels, return_inverse=True) for labels in (one, other))
    together = np.bincount(first * len(b) + second, minlength=len(a) * len(b)).reshape(len(a), len(b))
    each = _entropy(together.sum(1)) + _entropy(together.sum(0))
    return 2 * (each - _entropy(together)) / each if each else 1.0


def _entropy(counts: np.ndarray) -> float:
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log(shares)).sum())
