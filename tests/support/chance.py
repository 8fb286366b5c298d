"""What a ranking that knows nothing scores."""

from __future__ import annotations

import numpy as np


def chance_map_at_r(relevant: np.ndarray, others: int) -> np.ndarray:
    """Expected MAP@R of a random ranking, float64 [N], NaN where R = 0.

    ``relevant`` [N] is each query's R among the ``others`` = M photos of its gallery. In a random order, rank
    k is a hit with probability R/M, and given that, each of the k - 1 ranks before is one with (R-1)/(M-1);
    so E[Prec(k) rel(k)] = R/M * (1 + (k-1)(R-1)/(M-1)) / k. Summed over k <= R and divided by R, with H_R = 1
    + 1/2 + ... + 1/R: chance = (H_R + (R - H_R)(R-1)/(M-1)) / M.
    """
    relevant = np.asarray(relevant)
    ranks = np.arange(1, int(relevant.max(initial=0)) + 1)
    harmonic = np.concatenate([[0.0], np.cumsum(1 / ranks)])[relevant]
    # With one other photo, R <= 1 and the second term is 0.
    chance = (harmonic + (relevant - harmonic) * (relevant - 1) / max(others - 1, 1)) / others
    return np.where(relevant > 0, chance, np.nan)
