"""What tells backgrounds apart linearly is projected out: LEACE (Belrose et al. 2023) with the background as concept."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bgbias.evaluation import erasure
from bgbias.evaluation.erasure import Erasure

TITLE = "LEACE of backgrounds"
INDEX = "mapped"
FITTED = True


def fit(crossed: np.ndarray, judge: Callable[[Erasure], float]) -> Erasure:
    """See ``erasure.least_squares``; nothing is chosen."""
    return erasure.least_squares(crossed)
