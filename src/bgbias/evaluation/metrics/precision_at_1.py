"""Precision at 1: is the nearest neighbour of the query's class? (Musgrave et al., ECCV 2020).

Validation reads it, so it has a file of its own: an edit of other metrics leaves trainings current.
"""

import numpy as np

from bgbias.evaluation.retrieval import Neighbours

TITLE = "P@1"


def per_query(n: Neighbours) -> np.ndarray:
    """rel_i(1), float64 [N]; NaN for a query with nobody to find (recall at 1 counts those as misses)."""
    return np.where(n.relevant > 0, n.top(1)[:, 0].astype(np.float64), np.nan)
