"""Cumulative match characteristic: is the person among the first k? (docs/methods.md, section 15)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bgbias.evaluation.retrieval import Neighbours

if TYPE_CHECKING:
    from bgbias.evaluation.whole_gallery import WholeRanking


def within(n: Neighbours, k: int) -> np.ndarray:
    """Whether one of the first k photos shows the person, float64 [N]; NaN for a query with nobody to find."""
    return np.where(n.relevant > 0, n.top(k).any(axis=1).astype(np.float64), np.nan)


def within_persons(n: WholeRanking, k: int) -> np.ndarray:
    """The probability that the person is among the first k of a gallery with one photo of each, drawn by chance: float64 [N].

    The mean over all such galleries, which repetitions of a draw estimate: the match is each of the query's with equal
    probability, and another person stands before it with that of her photos which do. How many do is a sum of independent
    events, one for each of them. NaN for a query with nobody to find.
    """
    found = np.full(len(n), np.nan)
    for row in np.flatnonzero(n.relevant > 0):
        _, person, sizes = np.unique(
            n.labels[row][n.labels[row] >= 0], return_inverse=True, return_counts=True
        )
        matches = np.flatnonzero(n.same_label[row])
        ahead = np.zeros((len(matches), len(sizes)))
        np.add.at(ahead, (np.searchsorted(matches, np.arange(matches[-1] + 1)), person[: matches[-1] + 1]), 1)
        before = ahead.cumsum(axis=0) / sizes
        before[:, person[matches[0]]] = 0
        # The probability that 0, 1, ... k - 1 of the persons so far stand before the match.
        count = np.zeros((len(matches), k))
        count[:, 0] = 1
        for p in before.T[before.any(axis=0)]:
            count[:, 1:] = count[:, 1:] * (1 - p[:, None]) + count[:, :-1] * p[:, None]
            count[:, 0] *= 1 - p
        found[row] = count.sum(axis=1).mean()
    return found
