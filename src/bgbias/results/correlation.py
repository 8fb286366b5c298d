"""Whether one number of a model tells another: rank correlation over models."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from bgbias.photos.folds import seed_and_fold
from bgbias.results.rows import MODEL
from bgbias.results.uncertainty import CONFIDENCE, UNKNOWN, Estimate

FEWEST_MODELS = 10
COLUMNS = ("rho", "rho_low", "rho_high", "rho_models")


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


def beside(table: pd.DataFrame, scores: pd.Series, levels: pd.DataFrame) -> pd.DataFrame:
    """A table of models with ``rho``, its interval ``_low`` and ``_high``, and ``rho_models``, the same for all of a dataset and
    backbone: how well ``scores`` of trainings, by the model's four names and seed, tell their relative drop.

    ``levels``: the drops, as ``rows.of_each_seed`` has them. The scores of a seed's folds are averaged.
    """
    own = scores.rename("score").reset_index()
    own["seed"] = [seed_and_fold(run)[0] for run in own["seed"]]
    means = own.groupby([*MODEL, "seed"], sort=False)["score"].mean().reset_index()
    every = means.merge(levels, on=[*MODEL, "seed"])
    found = []
    for group, part in every.groupby(MODEL[:2], sort=False):
        rho = spearman(part["score"].to_numpy(), part["relative_drop"].to_numpy())
        of = dict(zip(MODEL[:2], group, strict=True)) | {"rho_models": len(part)}
        found.append(of | {"rho": rho.value, "rho_low": rho.low, "rho_high": rho.high})
    return table.merge(pd.DataFrame(found, columns=[*MODEL[:2], *COLUMNS]), on=MODEL[:2], how="left")
