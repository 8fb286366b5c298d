"""Intervals over classes and seeds against hand cases, a naive twin, SciPy and what must not change them; means and spreads; the
chance level against enumeration.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.optimize import brentq
from scipy.special import stdtrit

from bgbias.evaluation.metrics import map_at_r
from bgbias.results import uncertainty
from bgbias.results.uncertainty import (
    Estimate,
    change_of_relative_drop,
    difference,
    estimate,
    holm,
    itself,
    mean,
    relative_drop,
    sd_over_draws,
    sd_over_seeds,
)

NAN = math.nan
# How many columns each statistic is made of.
COLUMNS: dict[Callable[..., Any], int] = {
    itself: 1,
    difference: 2,
    relative_drop: 2,
    change_of_relative_drop: 4,
}


def test_golden_values_of_means_drops_and_spreads() -> None:
    assert mean(np.array([0.0, NAN, 1.0, 0.5])) == 0.5
    assert mean(np.array([[0.0, NAN], [1.0, 0.5]])) == 0.5
    assert math.isnan(mean(np.array([NAN, NAN])))
    # Kobs & Hotho 2022, Table 1: contrastive, plain, CUB200, MAP@R in percent.
    assert relative_drop(np.array(20.27), np.array(12.47)) == pytest.approx(0.384805, abs=5e-7)
    assert np.isnan(relative_drop(np.array([0.0, 0.2]), np.array([0.1, 0.1]))).tolist() == [True, False]
    # Two seeds x three draws: means over draws 2 and 5; sds over draws 1 and 2.
    values = np.array([[1.0, 2.0, 3.0], [3.0, 5.0, 7.0]])
    assert sd_over_seeds(values) == pytest.approx(3 / math.sqrt(2))
    assert sd_over_draws(values) == pytest.approx(1.5)
    assert math.isnan(sd_over_seeds(values[:1]))
    assert math.isnan(sd_over_draws(values[:, :1]))


def study(seed: int, of: Callable[..., Any], seeds: int) -> tuple[list[np.ndarray], np.ndarray]:
    """Columns [S, N] of correlated queries, some skipped, and the class of each, in no order."""
    random, sizes = np.random.default_rng(seed), (1, 5, 9, 2, 30, 4, 3)
    classes = random.permutation(np.repeat(range(len(sizes)), sizes))
    level = random.random(len(sizes))[classes] + random.normal(0, 0.1, (seeds, 1))
    columns = [level + random.normal(0, 0.2, (seeds, len(classes))) + 1 for _ in range(COLUMNS[of])]
    for column in columns:
        column[random.integers(seeds), random.integers(len(classes), size=2)] = NAN
    return columns, classes


def naive(
    columns: Sequence[np.ndarray], classes: np.ndarray, of: Callable[..., Any]
) -> tuple[float, float, float, float]:
    """``estimate`` by leaving out one seed, class or cell after the other: the value, the ends and p."""
    counted = ~np.isnan(columns).any(axis=(0, 1))
    values, classes = np.stack(columns)[..., counted], classes[counted]
    seeds, names = range(values.shape[1]), sorted(set(classes.tolist()))

    def number(seed: int | None = None, name: int | None = None, both: bool = False) -> float:
        pair = np.array(seeds) == seed, classes == name
        out = np.logical_and.outer(*pair) if both else np.logical_or.outer(*pair)
        return float(of(*values[:, ~out].mean(axis=1)))

    def jackknife(numbers: list[float]) -> float:
        return float((len(numbers) - 1) * np.var(numbers))

    # The linear form whose classes' shares of the variance say how many classes of equal size they are worth.
    means = values.mean(axis=(1, 2))
    slopes = [(of(*(means + way)) - of(*(means - way))) / 2e-5 for way in 1e-5 * np.eye(len(means))]
    form = pd.Series(np.tensordot(slopes, values.mean(axis=1), 1))
    members, further = form.groupby(classes), len(names) - 1
    sizes = members.size()
    within = ((form - members.transform("mean")) ** 2).sum() / (len(form) - len(names))
    between = (sizes * (members.mean() - form.mean()) ** 2).sum() / further
    of_class = max(0, (between - within) * further / (len(form) - (sizes**2).sum() / len(form)))
    shares = sizes**2 * (of_class + within / sizes)
    worth = shares.sum() ** 2 / (shares**2).sum() * further / len(names)
    worth = 2 / (1 / worth + 1 / further)

    v, value = jackknife([number(name=name) for name in names]), number()
    if len(seeds) < uncertainty.FEWEST_SEEDS:
        t = stats.t(worth, scale=math.sqrt(v))
        return value, value + t.ppf(0.025), value + t.ppf(0.975), 2 * t.sf(abs(value))
    cells = np.array([[number(seed, name, both=True) for name in names] for seed in seeds])
    rest = cells - cells.mean(axis=1, keepdims=True) - cells.mean(axis=0) + cells.mean()
    together = (rest**2).sum() * (cells.size - 1) ** 2 / cells.size / (len(seeds) - 1) / further
    parts = [(jackknife([number(seed) for seed in seeds]), len(seeds) - 1), (v, worth)]
    power = 1 + 3 / min(freedom for _, freedom in parts)

    def reach(level: float) -> float:
        inverse = 0.0
        for (whole, of_whole), (other, of_other) in (parts, parts[::-1]):
            first = stats.t(of_whole).isf(level / 2) ** 2 * whole
            second = stats.t(of_other).isf(level / 2) ** 2 * max(0.0, other - together)
            share = of_other / (of_whole + of_other)
            inverse += share / (first**power + second**power) ** (1 / power)
        return float(inverse**-0.5)

    p = math.exp(brentq(lambda log: reach(math.exp(log)) - abs(value), math.log(1e-16), -1e-5, xtol=1e-13))
    return value, value - reach(0.05), value + reach(0.05), p


def told(found: Estimate) -> tuple[float, float, float, float]:
    return found.value, found.low, found.high, found.p


@pytest.mark.parametrize("seeds", [1, 2, 3, 5])
@pytest.mark.parametrize("of", COLUMNS, ids=lambda of: of.__name__)
def test_an_estimate_is_that_of_its_naive_twin(of: Callable[..., Any], seeds: int) -> None:
    for number in range(2):
        columns, classes = study(number, of, seeds)
        assert told(estimate(columns, classes, of)) == pytest.approx(naive(columns, classes, of), rel=1e-6)


def test_classes_of_one_size_are_as_many_values_to_scipy() -> None:
    random = np.random.default_rng(0)
    for queries in (1, 4):
        by_class = random.normal(0.05, 0.1, (9, 1)) + random.normal(0, 0.1, (9, queries))
        expected = stats.ttest_1samp(by_class.mean(axis=1), 0)
        interval = expected.confidence_interval(uncertainty.CONFIDENCE)
        found = estimate([by_class.ravel()], np.repeat(np.arange(9), queries))
        assert told(found) == pytest.approx((by_class.mean(), interval.low, interval.high, expected.pvalue))
        # A difference is that of pairs.
        other = by_class + random.normal(0.05, 0.1, by_class.shape)
        paired = estimate([other.ravel(), by_class.ravel()], np.repeat(np.arange(9), queries), difference)
        assert paired.p == pytest.approx(stats.ttest_rel(other.mean(1), by_class.mean(1)).pvalue)


@pytest.mark.parametrize("seeds", [1, 4])
def test_where_nothing_varies_all_is_certain(seeds: int) -> None:
    (clean, corrupted), classes = study(4, relative_drop, seeds)
    same = estimate([clean, corrupted, clean, corrupted], classes, change_of_relative_drop)
    assert told(same) == (0.0, 0.0, 0.0, 1.0)
    levels = [np.full((seeds, 20), level) for level in (0.25, 0.125)]
    assert told(estimate(levels, np.arange(20) % 5, relative_drop)) == (0.5, 0.5, 0.5, 0.0)


def test_columns_that_do_not_belong_together_are_refused() -> None:
    rows: list[tuple[Any, int, Any, str]] = [
        ([np.ones(6), np.ones(7)], 6, None, "the same queries of the same seeds"),
        ([np.ones(6)], 6, [np.ones(7)], "the same queries of the same seeds"),
        ([np.full(6, NAN)], 6, None, "no query is left"),
        (np.ones((2, 6)), 6, None, r"of one column: estimate\(\[values\], classes\)"),
        ([0.5, 0.25], 6, None, r"columns must be \[S, N\] or \[N\] each, not \[\]"),
        ([np.ones((3, 6))], 7, None, r"classes must be \[6\], one for each query, not \[7\]"),
    ]
    for columns, classes, of_others, words in rows:
        with pytest.raises(ValueError, match=words):
            estimate(columns, np.arange(classes), of_others=of_others)


def test_few_classes_and_few_seeds_have_what_can_be_had() -> None:
    values = np.random.default_rng(0).random((3, 40))
    few, enough = (estimate([values], np.arange(40) % number) for number in (4, 5))
    assert told(few) == pytest.approx((values.mean(), NAN, NAN, NAN), nan_ok=True)
    assert few.value == enough.value
    assert enough.low < enough.value < enough.high
    # A class whose queries are all skipped is none.
    skipped = np.where(np.arange(40) % 5 == 3, NAN, values)
    assert math.isnan(estimate([skipped], np.arange(40) % 5).low)
    # Of one seed or two, the interval is of the mean of these models: which seed a value came from says nothing.
    two, models = values[:2] + np.array([[0], [5]]), np.arange(40) % 8
    assert told(estimate([two], models)) == pytest.approx(told(estimate([two.mean(axis=0)], models)))


def test_a_relative_drop_from_nothing_is_unknown() -> None:
    assert told(estimate([np.zeros(6), np.ones(6)], np.arange(6), relative_drop)) == pytest.approx(
        (NAN, NAN, NAN, NAN), nan_ok=True
    )
    # Without its one class that finds something there is nothing to lose.
    for seeds in (1, 4):
        clean = np.repeat(np.eye(6)[2:3], seeds, axis=0)
        found = estimate([clean, clean / 2], np.arange(6), relative_drop)
        assert told(found) == pytest.approx((0.5, NAN, NAN, NAN), nan_ok=True)


def test_what_a_class_means_for_others_goes_with_it() -> None:
    """A mean that is wholly of whom one class pushes away: without that class, all others find everything."""
    values, classes = np.array([0.9, 0.5, 0.4, 0.6, 0.5, 0.3]), np.arange(6)
    of_others = np.array([0.0, 0, 0, 0, 0, 2.5])
    without = [(values.sum() - v + o) / 5 for v, o in zip(values, of_others, strict=True)]
    error = math.sqrt(5 / 6 * sum((w - sum(without) / 6) ** 2 for w in without))
    found = estimate([values], classes, itself, [of_others])
    assert found.high - found.value == pytest.approx(stdtrit(5, 0.975) * error)
    # Queries that are skipped mean nothing for anybody.
    more = estimate([np.append(values, NAN)], np.append(classes, 5), itself, [np.append(of_others, NAN)])
    assert told(more) == pytest.approx(told(found))


def test_holm_is_closed_testing_with_bonferroni_of_what_was_tested() -> None:
    for seed in range(20):
        p = np.random.default_rng(seed).beta(0.5, 2, 5)
        family = range(len(p))
        subsets = [s for size in range(1, 6) for s in itertools.combinations(family, size)]
        # A hypothesis falls when every intersection that it is part of falls.
        expected = [max(min(1, len(s) * min(p[list(s)])) for s in subsets if i in s) for i in family]
        assert holm(p) == pytest.approx(expected)
    assert holm([0.01, NAN, 0.04]) == pytest.approx([0.02, NAN, 0.04], nan_ok=True)
    assert holm([0.5, 0.5]) == pytest.approx([1.0, 1.0])
    assert np.isnan(holm([NAN, NAN])).all()
    assert holm([]).shape == (0,)


@pytest.mark.parametrize("others", [1, 2, 5, 7])
def test_chance_equals_the_mean_over_all_orders(others: int) -> None:
    relevant = np.arange(others + 1)
    got = map_at_r.chance_level(relevant, others)
    assert math.isnan(got[0])
    for r in range(1, others + 1):
        orders = list(itertools.combinations(range(1, others + 1), r))
        hits = ((i + 1, place * r) for places in orders for i, place in enumerate(places) if place <= r)
        mean_over_orders = sum(Fraction(*hit) for hit in hits) / len(orders)
        assert got[r] == pytest.approx(float(mean_over_orders), abs=1e-12)
