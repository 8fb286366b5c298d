"""Embeddings such as a trained model makes: classes are clusters that overlap, and some photos are there twice."""

from __future__ import annotations

import numpy as np

from bgbias import seeds

# Pulls R-precision to about a half, where the methods of the literature stand.
SPREAD = 1.45
TWINS = 0.005  # of the photos are exact copies of their neighbour in the table


def clustered(photos: int, classes: int, dim: int, mixed: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Unit vectors float32 [photos, dim] and labels int64 [photos], classes of equal size.

    A photo and its copy are of one class, so that metrics do not depend on which of them comes first; with ``mixed``, copies
    are of any class.
    """
    generator = seeds.generator("benchmark embeddings", photos, classes, dim)
    labels = np.sort(np.arange(photos) % classes)
    centres = generator.standard_normal((classes, dim), dtype=np.float32)
    vectors = centres[labels] + SPREAD * generator.standard_normal((photos, dim), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    able = np.arange(photos - 1) if mixed else np.flatnonzero(labels[:-1] == labels[1:])
    copies = generator.choice(able, size=max(2, round(TWINS * photos)), replace=False)
    vectors[copies] = vectors[generator.permutation(copies) if mixed else copies + 1]
    return vectors, labels.astype(np.int64)
