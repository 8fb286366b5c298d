"""Mean average precision at R (Musgrave, Belongie & Lim, A Metric Learning Reality Check, ECCV 2020)."""

from __future__ import annotations

import numpy as np

from bgbias.evaluation.retrieval import Neighbours

TITLE = "MAP@R"


def per_query(n: Neighbours) -> np.ndarray:
    """(1/R_i) sum over k <= R_i of Prec_i(k) rel_i(k), float64 [N]; NaN for a query with nobody to find."""
    hits = n.within_r()
    precision = hits.cumsum(axis=1) / np.arange(1, hits.shape[1] + 1)
    return n.per_relevant((precision * hits).sum(axis=1))
