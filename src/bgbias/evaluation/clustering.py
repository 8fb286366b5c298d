"""k-means of embeddings."""

from __future__ import annotations

import numpy as np

from bgbias import seeds

# As the code behind the published numbers has it.
ITERATIONS = 20


def clusters(embeddings: np.ndarray, number: int, start: int = 0) -> np.ndarray:
    """Which of so many clusters each of the embeddings, float32 [N, d], is in, int64 [N]: faiss's k-means, whose first
    centres are drawn by N, ``number`` and ``start`` alone.
    """
    import faiss

    count, dim = embeddings.shape
    vectors = np.ascontiguousarray(embeddings, np.float32)
    # All photos count, however few or many there are for a cluster.
    every = {"min_points_per_centroid": 1, "max_points_per_centroid": count}
    seed = seeds.number(seeds.key("k-means", start)) % 2**31
    found = faiss.Kmeans(dim, number, niter=ITERATIONS, seed=seed, **every)
    found.train(vectors)
    return found.index.search(vectors, 1)[1][:, 0]  # type: ignore[no-any-return]
