"""Embeddings such as a trained model makes: classes are clusters that overlap, and some photos are there twice."""

from __future__ import annotations

import numpy as np

from bgbias import seeds

# Pulls R-precision to about a half, where the methods of the literature stand.
SPREAD = 1.45
TWINS = 0.005  # of the photos are exact copies of another one, half of them under another label


def clustered(photos: int, classes: int, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Unit vectors float32 [photos, dim] and labels int64 [photos], classes of equal size."""
    generator = seeds.generator("benchmark embeddings", photos, classes, dim)
    labels = np.sort(np.arange(photos) % classes)
    centres = generator.standard_normal((classes, dim), dtype=np.float32)
    vectors = centres[labels] + SPREAD * generator.standard_normal((photos, dim), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    copies = generator.choice(photos - 1, size=max(2, round(TWINS * photos)), replace=False)
    half = len(copies) // 2
    vectors[copies[:half]] = vectors[copies[:half] + 1]
    vectors[copies[half:]] = vectors[generator.integers(photos, size=len(copies) - half)]
    return vectors, labels.astype(np.int64)
