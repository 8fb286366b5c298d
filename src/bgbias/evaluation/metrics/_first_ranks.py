"""Metrics of a query's first neighbours: R-precision (Musgrave et al., ECCV 2020) and recall at k (Jegou, Douze & Schmid, TPAMI
2011).
"""

from functools import partial

import numpy as np

from bgbias.evaluation.retrieval import Neighbours


def r_precision(n: Neighbours) -> np.ndarray:
    """(1/R_i) sum over k <= R_i of rel_i(k), float64 [N]; NaN for a query with nobody to find."""
    return n.per_relevant(n.within_r().sum(axis=1))


def recall(n: Neighbours, k: int) -> np.ndarray:
    """1 or 0, float64 [N]. Every query counts: one with nobody to find is a miss."""
    return (n.top(k).sum(axis=1) > 0).astype(np.float64)


MEMBERS = {
    "r_precision": {"TITLE": "RP", "per_query": r_precision},
    "recall_at_2": {"TITLE": "R@2", "per_query": partial(recall, k=2)},
    "recall_at_4": {"TITLE": "R@4", "per_query": partial(recall, k=4)},
    "recall_at_8": {"TITLE": "R@8", "per_query": partial(recall, k=8)},
}
