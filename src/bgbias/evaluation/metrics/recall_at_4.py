"""Recall at 4: is any of the first 4 neighbours of the query's class? (Jegou, Douze & Schmid, TPAMI 2011)."""

from __future__ import annotations

import numpy as np

from bgbias.evaluation.retrieval import Neighbours

TITLE = "R@4"


def per_query(n: Neighbours) -> np.ndarray:
    """1 or 0, float64 [N]. Every query counts: one with nobody to find is a miss."""
    return (n.top(4).sum(axis=1) > 0).astype(np.float64)
