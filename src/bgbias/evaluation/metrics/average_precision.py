"""Average precision over the whole ranking, whose mean is the mAP of person re-identification (Zheng et al., ICCV 2015;
docs/methods.md, section 15).
"""

from __future__ import annotations

import numpy as np

from bgbias.evaluation.retrieval import Neighbours

TITLE = "mAP"
WHOLE = True


def per_query(n: Neighbours) -> np.ndarray:
    """The mean precision at the rank of each match, float64 [N]; NaN for a query with nobody to find."""
    precision = n.same_label.cumsum(axis=1) / np.arange(1, n.same_label.shape[1] + 1)
    return n.per_relevant((precision * n.same_label).sum(axis=1))
