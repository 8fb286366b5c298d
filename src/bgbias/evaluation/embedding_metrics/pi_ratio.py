"""Embedding space density: how far photos of a class lie apart, by how far classes do (Roth et al., ICML 2020; docs/methods.md,
section 8)."""

import numpy as np

TITLE = "Density"


def of_embeddings(embeddings: np.ndarray, labels: np.ndarray) -> float:
    """The mean cosine distance of two photos of a class, over classes that have two, by that of two classes' normalised means."""
    classes, class_of, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    sums = np.zeros((len(classes), embeddings.shape[1]))
    np.add.at(sums, class_of, embeddings.astype(np.float64))
    squares = np.bincount(class_of, np.square(embeddings, dtype=np.float64).sum(1))
    several = sizes > 1
    if len(classes) < 2 or not several.any():
        return float("nan")
    within = _mean_distance(sums[several], squares[several], sizes[several]).mean()
    means = sums / np.linalg.norm(sums, axis=1, keepdims=True)
    return float(within / _mean_distance(means.sum(0), len(classes), len(classes)))


def _mean_distance(sums: np.ndarray, squares: np.ndarray | int, sizes: np.ndarray | int) -> np.ndarray:
    """The mean cosine distance of pairs of different ones among so many vectors, of their sums [..., d] and of their squares'."""
    return np.asarray(1 - (np.square(sums).sum(-1) - squares) / (sizes * (sizes - 1)))
