"""Paired tests against SciPy, closed testing by hand, and how often they cry wolf."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from bgbias.results import tests, uncertainty
from bgbias.results.tests import holm, over_seeds, shares_of_relative_drop, sign_flip

NAN = math.nan


def differences(n: int, seed: int, shift: float = 0.0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(n) + shift


@pytest.mark.parametrize(("n", "shift"), [(7, 0.3), (12, 0.5), (15, 0.0)])
def test_sign_flips_agree_with_all_flips_there_are(n: int, shift: float) -> None:
    found = differences(n, n, shift)
    exact = stats.permutation_test(
        (found,), np.mean, permutation_type="samples", n_resamples=np.inf, alternative="two-sided"
    ).pvalue
    drawn = sign_flip(found, np.random.default_rng(0), n=100_000)
    assert drawn == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / 100_000))


def test_sign_flips_do_not_depend_on_the_block_size(monkeypatch: pytest.MonkeyPatch) -> None:
    found = differences(24, 1, 0.4)
    whole = sign_flip(found, np.random.default_rng(3), n=500)
    monkeypatch.setattr(tests, "BLOCK", 7 * 24)
    assert sign_flip(found, np.random.default_rng(3), n=500) == whole


def test_extremes_of_sign_flips() -> None:
    generator = np.random.default_rng(0)
    # The p of what no flip reaches is that of the one arrangement that was found.
    assert sign_flip(np.full(60, 0.1), generator, n=999) == pytest.approx(1 / 1000)
    assert sign_flip(np.zeros(60), generator, n=99) == 1.0
    assert sign_flip(np.array([0.1, -0.1]), generator, n=99) == 1.0
    assert math.isnan(sign_flip(np.array([NAN, NAN]), generator))
    with_gaps = sign_flip(np.append(differences(30, 2, 0.3), NAN), np.random.default_rng(1))
    assert with_gaps == sign_flip(differences(30, 2, 0.3), np.random.default_rng(1))


@pytest.mark.parametrize("seeds", [2, 3, 5])
def test_over_seeds_is_the_paired_t_test(seeds: int) -> None:
    plain, cured = differences(seeds, 1), differences(seeds, 2, 1.0)
    estimate, p = over_seeds(cured - plain)
    expected = stats.ttest_rel(cured, plain)
    interval = expected.confidence_interval(uncertainty.CONFIDENCE)
    assert p == pytest.approx(expected.pvalue, rel=1e-12)
    assert estimate.value == pytest.approx((cured - plain).mean())
    assert (estimate.low, estimate.high) == pytest.approx((interval.low, interval.high), rel=1e-12)


def test_one_seed_tells_nothing_of_others_and_equal_seeds_all() -> None:
    alone, p = over_seeds(np.array([0.5]))
    assert alone.value == 0.5
    assert math.isnan(alone.low)
    assert math.isnan(alone.high)
    assert math.isnan(p)
    assert over_seeds(np.full(4, 0.5)) == (uncertainty.Estimate(0.5, 0.5, 0.5), 0.0)
    assert over_seeds(np.zeros(4))[1] == 1.0
    nothing, p = over_seeds(np.array([]))
    assert math.isnan(nothing.value)
    assert math.isnan(p)


def test_holm_is_closed_testing_with_bonferroni() -> None:
    for seed in range(20):
        p = np.random.default_rng(seed).beta(0.5, 2, 5)
        family = range(len(p))
        subsets = [s for size in range(1, 6) for s in itertools.combinations(family, size)]
        # A hypothesis falls when every intersection that it is part of falls.
        expected = [max(min(1, len(s) * min(p[list(s)])) for s in subsets if i in s) for i in family]
        assert holm(p) == pytest.approx(expected)


def test_holm_leaves_out_what_was_not_tested() -> None:
    assert holm([0.01, NAN, 0.04]) == pytest.approx([0.02, NAN, 0.04], nan_ok=True)
    assert holm([0.5, 0.5]) == pytest.approx([1.0, 1.0])
    assert np.isnan(holm([NAN, NAN])).all()


def queries(n: int, seed: int, relative_drop: float, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Clean values with mean ``level`` and corrupted ones that follow them."""
    generator = np.random.default_rng(seed)
    clean = generator.beta(6 * level, 6 * (1 - level), n)
    return clean, clean * generator.beta(6 * (1 - relative_drop), 6 * relative_drop, n)


def test_shares_of_a_relative_drop_sum_up_to_it_and_say_how_it_moves() -> None:
    clean, corrupted = queries(40, 0, 0.3, 0.5)
    whole = 1 - corrupted.mean() / clean.mean()
    shares = shares_of_relative_drop(clean, corrupted)
    assert shares.mean() == pytest.approx(whole)
    # A little more weight on one query moves the drop by that query's share beyond the mean.
    for query in (0, 17):
        weights = np.ones(40)
        weights[query] += 1e-6
        moved = 1 - (weights @ corrupted) / (weights @ clean)
        assert (moved - whole) / 1e-6 == pytest.approx((shares[query] - whole) / 40, rel=1e-3)


def test_shares_of_skipped_queries_and_of_nothing_are_unknown() -> None:
    clean, corrupted = queries(10, 1, 0.3, 0.5)
    with_gap = shares_of_relative_drop(np.append(clean, NAN), np.append(corrupted, NAN))
    assert with_gap == pytest.approx([*shares_of_relative_drop(clean, corrupted), NAN], nan_ok=True)
    assert np.isnan(shares_of_relative_drop(np.zeros(5), np.zeros(5))).all()


def test_equal_cures_at_other_levels_are_called_different_one_time_in_twenty() -> None:
    """The test of the relative drop, of models that find half as much of everything and lose the same share of it."""
    studies, wrong, found = 400, 0, 0
    for seed in range(studies):
        plain = shares_of_relative_drop(*queries(150, seed, 0.3, 0.6))
        alike = shares_of_relative_drop(*queries(150, seed + studies, 0.3, 0.3))
        cured = shares_of_relative_drop(*queries(150, seed + studies, 0.1, 0.3))
        generator = np.random.default_rng(seed)
        wrong += sign_flip(plain - alike, generator, n=400) < 0.05
        found += sign_flip(plain - cured, generator, n=400) < 0.05
    # Binomial sd of a true 5 % over 400 studies: 1.1 %.
    assert 0.02 <= wrong / studies <= 0.085
    assert found == studies
