"""Mean average precision at R (Musgrave, Belongie & Lim, A Metric Learning Reality Check, ECCV 2020)."""

import numpy as np

from bgbias.evaluation.retrieval import Neighbours

TITLE = "MAP@R"


def per_query(n: Neighbours) -> np.ndarray:
    """(1/R_i) sum over k <= R_i of Prec_i(k) rel_i(k), float64 [N]; NaN for a query with nobody to find."""
    hits = n.within_r()
    precision = hits.cumsum(axis=1) / np.arange(1, hits.shape[1] + 1)
    return n.per_relevant((precision * hits).sum(axis=1))


def chance_level(relevant: np.ndarray, others: int) -> np.ndarray:
    """The expectation for queries with R_i ``relevant`` [N] among so many ``others``, ranked by chance, float64 [N].

    With p = R/others and q = (R - 1)/(others - 1) it is (p/R) sum over k <= R of (1 + (k - 1) q)/k. NaN where nobody is to be
    found.
    """
    levels = np.full(len(relevant), np.nan)
    for r in np.unique(relevant[relevant > 0]):
        k = np.arange(1, r + 1)
        after = (r - 1) / max(others - 1, 1)
        levels[relevant == r] = ((1 + (k - 1) * after) / k).sum() / others
    return levels
