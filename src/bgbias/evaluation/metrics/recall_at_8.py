"""Recall at 8: is any of the first 8 neighbours of the query's class? (Jegou, Douze & Schmid, TPAMI 2011)."""

from __future__ import annotations

import numpy as np

from bgbias.evaluation.retrieval import Neighbours

TITLE = "R@8"


def per_query(n: Neighbours) -> np.ndarray:
    """1 or 0, float64 [N]. Every query counts: one with nobody to find is a miss."""
    return (n.top(8).sum(axis=1) > 0).astype(np.float64)
