"""NMI: how well k-means finds the classes, by normalised mutual information (Manning, Raghavan & Schütze 2008, section 16.3;
docs/methods.md, section 8)."""

import numpy as np

from bgbias import seeds

TITLE = "NMI"
ITERATIONS = 20  # as the code behind the published numbers has it
# Of a single start it has a standard deviation of .014 over starts; the start with the least squares hangs as much on chance.
STARTS = 10


def of_embeddings(embeddings: np.ndarray, labels: np.ndarray) -> float:
    """Between the classes and as many clusters, 0..1: the mean over ``STARTS`` of k-means."""
    number = len(np.unique(labels))
    labellings = (clusters(embeddings, number, start) for start in range(STARTS))
    return float(np.mean([normalized_mutual_information(labels, labelling) for labelling in labellings]))


def clusters(embeddings: np.ndarray, number: int, start: int = 0) -> np.ndarray:
    """Clusters of embeddings float32 [N, d], int64 [N]: faiss's k-means, keyed by ``start``."""
    import faiss

    count, dim = embeddings.shape
    vectors = np.ascontiguousarray(embeddings, np.float32)
    # All photos count, however few or many there are for a cluster.
    every = {"min_points_per_centroid": 1, "max_points_per_centroid": count}
    seed = seeds.number(seeds.key("k-means", start)) % 2**31
    kmeans = faiss.Kmeans(dim, number, niter=ITERATIONS, seed=seed, **every)
    kmeans.train(vectors)
    return kmeans.index.search(vectors, 1)[1][:, 0]  # type: ignore[no-any-return]


def normalized_mutual_information(one: np.ndarray, other: np.ndarray) -> float:
    """2 I / (H + H') of two labellings [N] of the same things; 1 where neither tells any of them apart."""
    (a, first), (b, second) = (np.unique(labels, return_inverse=True) for labels in (one, other))
    together = np.bincount(first * len(b) + second, minlength=len(a) * len(b)).reshape(len(a), len(b))
    each = _entropy(together.sum(1)) + _entropy(together.sum(0))
    return 2 * (each - _entropy(together)) / each if each else 1.0


def _entropy(counts: np.ndarray) -> float:
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log(shares)).sum())
