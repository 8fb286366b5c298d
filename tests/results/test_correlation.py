"""Rank correlation: as SciPy has it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from bgbias.results.correlation import spearman


def test_the_value_is_scipys() -> None:
    random = np.random.default_rng(0)
    for n in (10, 17, 40):
        a, b = random.integers(0, 8, n), random.normal(size=n)
        assert spearman(a, b) == pytest.approx(stats.spearmanr(a, b).statistic)


def test_nothing_is_told_of_few_models_or_of_models_that_are_all_alike() -> None:
    ten, gap = np.arange(10.0), np.r_[np.nan, np.arange(9.0)]
    assert spearman(ten, -ten) == -1
    for other in (gap, np.ones(10)):
        assert np.isnan(spearman(ten, other))
