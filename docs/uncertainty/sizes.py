"""How many degrees of freedom a variance over classes of unequal size has: how often an interval of each way holds the truth.

Of one model, whose queries are normal about the level of their class, with known variances of classes and of queries.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from bgbias.results.uncertainty import CONFIDENCE

CLASSES, CORRELATIONS = (5, 10, 25, 100), (0.0, 0.3, 0.8)
DRAWN, STUDIES = 200, 200  # times that sizes are drawn, and studies of each

# From the number of classes and how many of equal size they are worth to degrees of freedom.
WAYS: dict[str, Callable[[int, float], float]] = {
    "as used here": lambda number, worth: 2 / (1 / (number - 1) + number / (number - 1) / worth),
    "of as many classes of equal size as these are worth": lambda number, worth: (
        worth * (number - 1) / number
    ),
    "one less than there are classes": lambda number, worth: number - 1.0,
}


def covered(number: int, correlation: float, random: np.random.Generator) -> dict[str, float]:
    """The share of studies whose interval holds the truth, by way: the mean over queries, by its delete-one jackknife."""
    from coverage import uneven  # beside this file

    held = dict.fromkeys(WAYS, 0.0)
    for _ in range(DRAWN):
        sizes = uneven(number, random)
        weights = sizes / sizes.sum()
        variances = correlation + (1 - correlation) / sizes
        levels = random.normal(size=(STUDIES, number)) * np.sqrt(variances)
        means = levels @ weights
        without = (means[:, None] - weights * levels) / (1 - weights)
        errors = np.sqrt((number - 1) * without.var(axis=1))
        shares = sizes**2 * variances
        worth = float(shares.sum() ** 2 / (shares**2).sum())
        for way, freedom in WAYS.items():
            reach = stdtrit(max(1.0, freedom(number, worth)), (1 + CONFIDENCE) / 2) * errors
            held[way] += float((abs(means) <= reach).mean()) / DRAWN
    return held


def table() -> pd.DataFrame:
    """A row a way, number of classes and correlation of a class's queries, whose sizes are a few to a hundred."""
    return pd.DataFrame(
        [
            {"way": way, "classes": number, "correlation": correlation, "covered": share}
            for seed, (number, correlation) in enumerate(product(CLASSES, CORRELATIONS))
            for way, share in covered(number, correlation, np.random.default_rng(seed)).items()
        ]
    )
