"""The directions in which backgrounds move single objects most are projected out; validation photos say how many."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bgbias.evaluation import erasure
from bgbias.evaluation.erasure import Erasure

TITLE = "moved directions removed"
INDEX = "mapped"
FITTED = True


def fit(crossed: np.ndarray, judge: Callable[[Erasure], float]) -> Erasure:
    """``erasure.largest_within`` of 0, 1, 2, 4, 8, ... directions, up to half of all: the fewest that ``judge`` finds best."""
    counts = [0, *(2**power for power in range(crossed.shape[2].bit_length() - 1))]
    candidates = [erasure.largest_within(crossed, count) for count in counts]
    judged = [judge(candidate) for candidate in candidates]
    return candidates[int(np.argmax(judged))]
