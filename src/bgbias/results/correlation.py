"""Whether one number of a model tells another: rank correlation over models."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from bgbias.results.uncertainty import CONFIDENCE, UNKNOWN, Estimate

FEWEST_MODELS = 10


def spearman(first: Sequence[float] | np.ndarray, second: Sequence[float] | np.ndarray) -> Estimate:
    """Spearman's rank correlation of two numbers of the same models, with its interval and the p of its being 0.

    The interval is Fisher's z with the variance (1 + rho^2 / 2) / (n - 3) of Bonett & Wright (2000). It takes models as
    independent, which trainings of one method are not: it speaks of these models. Models with a NaN are left out; unknown for
    fewer than ``FEWEST_MODELS``, or where all have the same number.
    """
    from scipy.special import ndtr, ndtri
    from scipy.stats import rankdata

    a, b = np.asarray(first, np.float64), np.asarray(second, np.float64)
    known = ~(np.isnan(a) | np.isnan(b))
    ranks = [rankdata(values[known]) for values in (a, b)]
    if known.sum() < FEWEST_MODELS or min(np.ptp(r) for r in ranks) == 0:
        return UNKNOWN
    rho = round(float(np.corrcoef(*ranks)[0, 1]), 12)  # the same order gives 1, not nearly 1
    if abs(rho) == 1:
        return Estimate(rho, rho, rho, 0.0)
    error = math.sqrt((1 + rho**2 / 2) / (int(known.sum()) - 3))
    z, reach = math.atanh(rho), float(ndtri((1 + CONFIDENCE) / 2)) * error
    # Under no correlation the variance has no rho in it.
    p = 2 * float(ndtr(-abs(z) * math.sqrt(int(known.sum()) - 3)))
    return Estimate(rho, math.tanh(z - reach), math.tanh(z + reach), p)


def said(found: Estimate, models: int) -> str:
    """``rho .52 [.11, .78], 24 models``, or that there are too few."""
    if math.isnan(found.value):
        return f"not told, of {models} models"
    return f"rho {found.value:.2f} [{found.low:.2f}, {found.high:.2f}], {models} models".replace("-", "−")
