"""Means, spreads, intervals and chance level against hand cases, naive twins, enumeration and simulation."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from chance import chance_map_at_r

from bgbias.evaluation.metrics import map_at_r
from bgbias.evaluation.retrieval import Neighbours
from bgbias.results import uncertainty
from bgbias.results.uncertainty import (
    bootstrap_difference_of_drops,
    bootstrap_drop,
    drop,
    mean,
    per_query_mean,
    sd_over_draws,
    sd_over_seeds,
)

NAN = math.nan


def test_mean_leaves_out_what_is_skipped() -> None:
    assert mean(np.array([0.0, NAN, 1.0, 0.5])) == 0.5
    assert mean(np.array([[0.0, NAN], [1.0, 0.5]])) == 0.5
    assert math.isnan(mean(np.array([NAN, NAN])))


def test_per_query_mean_is_over_seeds_and_draws() -> None:
    values = np.array([[[0.0, 1.0, NAN], [1.0, 1.0, NAN]], [[0.0, 0.0, NAN], [0.0, 1.0, NAN]]])
    np.testing.assert_array_equal(per_query_mean(values), [0.25, 0.75, NAN])
    np.testing.assert_array_equal(per_query_mean(values[0]), [0.5, 1.0, NAN])


def test_drop_of_the_papers_first_row() -> None:
    # Kobs & Hotho 2022, Table 1: contrastive, plain, CUB200, MAP@R in percent.
    got = drop(20.27, 12.47)
    assert got.absolute == pytest.approx(7.80)
    assert got.relative == pytest.approx(0.384805, abs=5e-7)
    assert math.isnan(drop(0.0, 0.1).relative)


def test_spread_over_seeds_and_over_draws_are_two_numbers() -> None:
    # Two seeds x three draws: means over draws 2 and 5; sds over draws 1 and 2.
    values = np.array([[1.0, 2.0, 3.0], [3.0, 5.0, 7.0]])
    assert sd_over_seeds(values) == pytest.approx(3 / math.sqrt(2))
    assert sd_over_draws(values) == pytest.approx(1.5)


def test_spread_of_a_single_one_is_unknown() -> None:
    assert math.isnan(sd_over_seeds(np.array([[1.0, 2.0, 3.0]])))
    assert sd_over_draws(np.array([[1.0, 2.0, 3.0]])) == pytest.approx(1.0)
    assert math.isnan(sd_over_draws(np.array([[1.0], [2.0]])))
    with pytest.raises(ValueError, match=r"\[seeds, draws\]"):
        sd_over_seeds(np.array([1.0, 2.0]))


def paired_queries(n: int, seed: int, relative_drop: float = 0.3) -> tuple[np.ndarray, np.ndarray]:
    """Clean values with mean 0.4 and corrupted ones that follow them, with mean 0.4 (1 - relative_drop)."""
    generator = np.random.default_rng(seed)
    clean = generator.beta(2, 3, n)
    return clean, clean * generator.beta(6 * (1 - relative_drop), 6 * relative_drop, n)


def test_bootstrap_equals_explicit_resampling() -> None:
    (clean_a, corrupted_a), (clean_b, corrupted_b) = paired_queries(37, 0), paired_queries(37, 1)
    draws = np.random.default_rng(9).integers(37, size=(200, 37))
    absolute, relative = [], []
    for queries in draws:
        a, b, c, d = (float(v[queries].mean()) for v in (clean_a, corrupted_a, clean_b, corrupted_b))
        absolute.append((a - b) - (c - d))
        relative.append((1 - b / a) - (1 - d / c))
    got = bootstrap_difference_of_drops(
        clean_a, corrupted_a, clean_b, corrupted_b, np.random.default_rng(9), n=200
    )
    for estimate, naive in ((got.absolute, absolute), (got.relative, relative)):
        assert (estimate.low, estimate.high) == pytest.approx(tuple(np.quantile(naive, [0.025, 0.975])))
        assert estimate.low < estimate.value < estimate.high


def test_bootstrap_does_not_depend_on_the_block_size(monkeypatch: pytest.MonkeyPatch) -> None:
    clean, corrupted = paired_queries(101, 2)
    whole = bootstrap_drop(clean, corrupted, np.random.default_rng(3), n=50)
    monkeypatch.setattr(uncertainty, "BLOCK", 7 * 101)
    blocks = bootstrap_drop(clean, corrupted, np.random.default_rng(3), n=50)
    assert blocks.relative.low == pytest.approx(whole.relative.low, abs=1e-12)
    assert blocks.absolute.high == pytest.approx(whole.absolute.high, abs=1e-12)


def test_constant_queries_have_an_interval_of_no_width() -> None:
    got = bootstrap_drop(np.full(20, 0.5), np.full(20, 0.4), np.random.default_rng(0))
    assert (got.absolute.value, got.absolute.low, got.absolute.high) == pytest.approx((0.1, 0.1, 0.1))
    assert (got.relative.value, got.relative.low, got.relative.high) == pytest.approx((0.2, 0.2, 0.2))


def test_a_method_does_not_differ_from_itself() -> None:
    clean, corrupted = paired_queries(80, 4)
    got = bootstrap_difference_of_drops(clean, corrupted, clean, corrupted, np.random.default_rng(0))
    assert (got.relative.value, got.relative.low, got.relative.high) == (0.0, 0.0, 0.0)


def test_skipped_queries_are_left_out_of_every_sample() -> None:
    clean, corrupted = paired_queries(30, 5)
    expected = bootstrap_drop(clean, corrupted, np.random.default_rng(1))
    with_gaps = bootstrap_drop(
        np.append(clean, [NAN, 0.9]), np.append(corrupted, [0.9, NAN]), np.random.default_rng(1)
    )
    assert with_gaps == expected


def test_unpaired_or_empty_queries_are_refused() -> None:
    generator = np.random.default_rng(0)
    with pytest.raises(ValueError, match="same queries"):
        bootstrap_drop(np.ones(3), np.ones(4), generator)
    with pytest.raises(ValueError, match="no query is left"):
        bootstrap_drop(np.full(3, NAN), np.ones(3), generator)


def test_a_relative_drop_from_nothing_is_unknown() -> None:
    got = bootstrap_drop(np.zeros(5), np.zeros(5), np.random.default_rng(0))
    assert got.absolute.value == got.absolute.low == 0.0
    assert math.isnan(got.relative.value)
    assert math.isnan(got.relative.low)


def test_95_percent_intervals_cover_the_truth_about_as_often() -> None:
    covered = np.zeros(2)
    datasets = 400
    for seed in range(datasets):
        (clean_a, corrupted_a), (clean_b, corrupted_b) = (
            paired_queries(200, seed, 0.3),
            paired_queries(200, seed + datasets, 0.1),
        )
        generator = np.random.default_rng(seed)
        one = bootstrap_drop(clean_a, corrupted_a, generator, n=400).relative
        two = bootstrap_difference_of_drops(
            clean_a, corrupted_a, clean_b, corrupted_b, generator, n=400
        ).relative
        covered += [one.low <= 0.3 <= one.high, two.low <= 0.2 <= two.high]
    # Binomial sd of a true 95 % over 400 datasets: 1.1 %.
    assert (covered / datasets >= 0.91).all()
    assert (covered / datasets <= 0.985).all()


@pytest.mark.parametrize("others", [1, 2, 5, 7])
def test_chance_equals_the_mean_over_all_orders(others: int) -> None:
    relevant = np.arange(others + 1)
    got = chance_map_at_r(relevant, others)
    assert math.isnan(got[0])
    for r in range(1, others + 1):
        total, orders = Fraction(0), 0
        for places in itertools.combinations(range(1, others + 1), r):
            total += sum(Fraction(i + 1, place * r) for i, place in enumerate(places) if place <= r)
            orders += 1
        assert got[r] == pytest.approx(float(total / orders), abs=1e-12)


def test_chance_equals_the_metric_on_shuffled_galleries() -> None:
    generator = np.random.default_rng(0)
    others, relevant, queries = 120, 12, 20_000
    gallery = np.arange(others) < relevant
    hits = generator.permuted(np.tile(gallery, (queries, 1)), axis=1)
    n = Neighbours(hits, np.full(queries, relevant), np.zeros_like(hits, dtype=np.int64))
    simulated = map_at_r.per_query(n)
    expected = chance_map_at_r(n.relevant, others)[0]
    assert abs(simulated.mean() - expected) < 4 * simulated.std() / math.sqrt(queries)
