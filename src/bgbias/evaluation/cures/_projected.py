"""Linear maps, fitted on crossed embeddings, that take out of any embedding what backgrounds move: cures without training.

n objects, each on the same m backgrounds, are embedded; no label is needed (docs/methods.md, section 14). Networks stay
as they are; an index that exists is mapped once.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

INDEX = "mapped"
FITTED = True
# Directions in which embeddings vary by less than this part of their largest standard deviation count as none: rounding.
LEAST = 1e-6


@dataclass(frozen=True)
class Erasure:
    """x -> x - ``removed`` (x - ``mean``), at unit length again. ``removed`` [d, d] is a projection; ``mean`` [d]."""

    mean: np.ndarray
    removed: np.ndarray

    @property
    def rank(self) -> int:
        """How many directions are taken out."""
        return round(float(np.trace(self.removed)))

    def __call__(self, embeddings: np.ndarray) -> np.ndarray:
        """Unit vectors [n, d] in the type of ``embeddings`` [n, d]; what is nothing but background stays 0."""
        rest = embeddings - (embeddings - self.mean) @ self.removed.T
        lengths = np.linalg.norm(rest, axis=1, keepdims=True)
        return np.divide(rest, lengths, out=np.zeros_like(rest), where=lengths > 0).astype(embeddings.dtype)


def least_squares(crossed: np.ndarray) -> Erasure:
    """Of embeddings [n, m, d]: the least change after which no linear classifier tells the backgrounds apart, before lengths
    are 1 again.

    LEACE (Belrose et al. 2023, theorem 4.3), with the background as concept. It takes out one direction fewer than there are
    backgrounds, chance differences between their means included: with many, embeddings lose much.
    """
    values = crossed.astype(np.float64)
    whiten, colour = _whitening(values)
    moved = whiten @ (values.mean(axis=0) - values.mean(axis=(0, 1))).T
    vectors, sizes, _ = np.linalg.svd(moved, full_matrices=False)
    basis = vectors[:, sizes > LEAST * max(sizes.max(), 1.0)]
    return _build_erasure(values, whiten, colour, basis)


def largest_within(crossed: np.ndarray, directions: int) -> Erasure:
    """Of embeddings [n, m, d]: without the whitened ``directions`` in which backgrounds move single objects most.

    The leading eigenvectors of the scatter within objects against the total one; unlike ``least_squares`` it also sees
    backgrounds that move objects to different sides.
    """
    values = crossed.astype(np.float64)
    whiten, colour = _whitening(values)
    within = (values - values.mean(axis=1, keepdims=True)).reshape(-1, values.shape[2]) @ whiten.T
    vectors = np.linalg.eigh(within.T @ within)[1]
    return _build_erasure(values, whiten, colour, vectors[:, ::-1][:, :directions])


def _whitening(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The square root of the total covariance, inverted where it is not 0, and itself."""
    flat = values.reshape(-1, values.shape[2])
    variances, vectors = np.linalg.eigh(np.cov(flat, rowvar=False, bias=True))
    scales = np.sqrt(np.maximum(variances, 0))
    positive = scales > LEAST * scales.max()
    inverse = np.divide(1, scales, out=np.zeros_like(scales), where=positive)
    return vectors * inverse @ vectors.T, vectors * (scales * positive) @ vectors.T


def _build_erasure(values: np.ndarray, whiten: np.ndarray, colour: np.ndarray, basis: np.ndarray) -> Erasure:
    return Erasure(values.mean(axis=(0, 1)), colour @ basis @ basis.T @ whiten)


def moved_directions(crossed: np.ndarray, judge: Callable[[Erasure], float]) -> Erasure:
    """``largest_within`` of 0, 1, 2, 4, 8, ... directions, up to half of all: the fewest that ``judge`` finds best."""
    counts = [0, *(2**power for power in range(crossed.shape[2].bit_length() - 1))]
    candidates = [largest_within(crossed, count) for count in counts]
    judged = [judge(candidate) for candidate in candidates]
    return candidates[int(np.argmax(judged))]


MEMBERS = {
    "leace": {"TITLE": "LEACE of backgrounds", "fit": lambda crossed, judge: least_squares(crossed)},
    "moved_directions": {"TITLE": "moved directions removed", "fit": moved_directions},
}
