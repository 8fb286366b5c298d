"""Rank correlation: its value as SciPy has it, its interval by simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from bgbias.results.correlation import spearman


def test_the_value_is_scipys() -> None:
    random = np.random.default_rng(0)
    for n in (10, 17, 40):
        a, b = random.integers(0, 8, n), random.normal(size=n)
        assert spearman(a, b).value == pytest.approx(stats.spearmanr(a, b).statistic)


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.8])
def test_intervals_hold_what_they_promise(rho: float) -> None:
    random = np.random.default_rng(1)
    # The rank correlation of a normal pair.
    true = 6 / np.pi * np.arcsin(rho / 2)
    hits = tested = 0
    for _ in range(1000):
        a, b = random.multivariate_normal([0, 0], [[1, rho], [rho, 1]], 24).T
        found = spearman(a, b)
        hits += found.low <= true <= found.high
        tested += found.p < 0.05
    assert 0.92 <= hits / 1000 <= 0.98
    if not rho:
        assert 0.03 <= tested / 1000 <= 0.07


def test_nothing_is_told_of_few_models_or_of_models_that_are_all_alike() -> None:
    ten, gap = np.arange(10.0), np.r_[np.nan, np.arange(9.0)]
    assert spearman(ten, -ten).value == -1
    for other in (gap, np.ones(10)):
        assert np.isnan(spearman(ten, other).value)
