"""Metrics that differ in a rank, or read the same ranking.

Of a query's first neighbours: R-precision (Musgrave et al., ECCV 2020) and recall at k (Jegou, Douze & Schmid, TPAMI 2011).

Of whole rankings, as person re-identification has them (docs/methods.md, section 15): average precision, whose mean is the mAP
(Zheng et al., ICCV 2015), and the cumulative match characteristic, whether the person is among the first k photos (Gray, Brennan
& Tao, PETS 2007), or, single shot, among the first k of a gallery with one photo of each person, the classic protocol of CUHK03
(Li et al., CVPR 2014).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from bgbias.evaluation.retrieval import Neighbours

if TYPE_CHECKING:
    from bgbias.evaluation.whole_gallery import WholeRanking


def r_precision(n: Neighbours) -> np.ndarray:
    """(1/R_i) sum over k <= R_i of rel_i(k), float64 [N]; NaN for a query with nobody to find."""
    return n.per_relevant(n.within_r().sum(axis=1))


def recall(n: Neighbours, k: int) -> np.ndarray:
    """1 or 0, float64 [N]. Every query counts: one with nobody to find is a miss."""
    return (n.top(k).sum(axis=1) > 0).astype(np.float64)


def average_precision(n: Neighbours) -> np.ndarray:
    """The mean precision at the rank of each match, float64 [N]; NaN for a query with nobody to find."""
    precision = n.same_label.cumsum(axis=1) / np.arange(1, n.same_label.shape[1] + 1)
    return n.per_relevant((precision * n.same_label).sum(axis=1))


def cmc(n: Neighbours, k: int) -> np.ndarray:
    """Whether one of the first k photos shows the person, float64 [N]; NaN for a query with nobody to find."""
    return np.where(n.relevant > 0, n.top(k).any(axis=1).astype(np.float64), np.nan)


def single_shot_cmc(n: WholeRanking, k: int) -> np.ndarray:
    """The probability that the person is among the first k of a gallery with one photo of each, drawn by chance: float64 [N].

    The mean over all such galleries, which repetitions of a draw estimate: the match is each of the query's with equal
    probability, and another person stands before it with that of her photos which do. How many do is a sum of independent
    events, one for each of them. NaN for a query with nobody to find.
    """
    values = np.full(len(n), np.nan)
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
        values[row] = count.sum(axis=1).mean()
    return values


MEMBERS = {
    "r_precision": {"TITLE": "RP", "per_query": r_precision},
    **{f"recall_at_{k}": {"TITLE": f"R@{k}", "per_query": partial(recall, k=k)} for k in (2, 4, 8)},
    "average_precision": {"TITLE": "mAP", "per_query": average_precision, "WHOLE": True},
    **{f"cmc_{k}": {"TITLE": f"CMC@{k}", "per_query": partial(cmc, k=k), "WHOLE": True} for k in (1, 5, 10)},
    **{
        f"single_shot_cmc_{k}": {
            "TITLE": f"CMC@{k}, single shot",
            "per_query": partial(single_shot_cmc, k=k),
            "WHOLE": True,
        }
        for k in (1, 5, 10)
    },
}
