"""R-precision: the share of a query's first R_i neighbours of its own class (Musgrave et al., ECCV 2020)."""

from __future__ import annotations

import numpy as np

from bgbias.evaluation.retrieval import Neighbours

TITLE = "RP"


def per_query(n: Neighbours) -> np.ndarray:
    """(1/R_i) sum over k <= R_i of rel_i(k), float64 [N]; NaN for a query with nobody to find."""
    return n.per_relevant(n.within_r().sum(axis=1))
