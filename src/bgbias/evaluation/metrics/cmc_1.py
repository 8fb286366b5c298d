"""CMC at 1: is the person among the first 1 photos? (Gray, Brennan & Tao, PETS 2007; docs/methods.md, section 15)."""

from __future__ import annotations

import numpy as np

from bgbias.evaluation.metrics._cmc import within
from bgbias.evaluation.retrieval import Neighbours

TITLE = "CMC@1"
WHOLE = True


def per_query(n: Neighbours) -> np.ndarray:
    """1 or 0, float64 [N]; NaN for a query with nobody to find."""
    return within(n, 1)
