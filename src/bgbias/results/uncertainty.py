"""Means, drops and their uncertainty: the only place where per-query values become reported numbers.

Arrays are float64, one value per query, NaN for a query that is skipped (nobody to find). All functions that
compare expect the same queries in the same order, so that every comparison is paired.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

CONFIDENCE = 0.95
RESAMPLES = 2000
# Numbers in one block of resampled counts: 32 MB.
BLOCK = 2**22


@dataclass(frozen=True)
class Drop:
    """What corruption costs: ``absolute`` = clean - corrupted, ``relative`` = 1 - corrupted / clean."""

    absolute: float
    relative: float


@dataclass(frozen=True)
class Estimate:
    """A value on the queries as they are, and the ends of its percentile bootstrap interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class DropEstimate:
    """A drop, or a difference of drops, with intervals."""

    absolute: Estimate
    relative: Estimate


def mean(values: np.ndarray) -> float:
    """The mean of ``values`` over queries (not over classes), those that are skipped left out; NaN if none is left."""
    counted = values[~np.isnan(values)]
    return float(counted.mean()) if len(counted) else math.nan


def per_query_mean(values: np.ndarray) -> np.ndarray:
    """Mean of ``values`` [..., N] over draws, seeds or both: [N]. A query skipped in one is skipped."""
    values = np.asarray(values, dtype=np.float64)
    return values.reshape(-1, values.shape[-1]).mean(axis=0)


def drop(clean: float, corrupted: float) -> Drop:
    """The drop from one clean to one corrupted mean. Relative to nothing (clean = 0) it is NaN."""
    return Drop(clean - corrupted, 1 - corrupted / clean if clean else math.nan)


def sd_over_seeds(values: np.ndarray) -> float:
    """Spread of training: sample sd (ddof 1) over seeds of each model's mean over draws.

    ``values`` [S, D] holds one metric's mean over queries for S training seeds and D background draws. NaN
    for a single seed.
    """
    by_seed = _seeds_by_draws(values).mean(axis=1)
    return float(by_seed.std(ddof=1)) if len(by_seed) > 1 else math.nan


def sd_over_draws(values: np.ndarray) -> float:
    """Spread of the backgrounds: each model's sample sd (ddof 1) over draws, averaged over the models.

    ``values`` [S, D] as for ``sd_over_seeds``; S = 1 is the ± of Kobs & Hotho's Table 1. NaN for a single
    draw.
    """
    values = _seeds_by_draws(values)
    return float(values.std(axis=1, ddof=1).mean()) if values.shape[1] > 1 else math.nan


def bootstrap_means(
    columns: list[np.ndarray], generator: np.random.Generator, n: int = RESAMPLES
) -> list[Estimate]:
    """The means of several columns [N] of the same queries, or of their differences, each with its percentile interval.

    Each of the ``n`` bootstrap samples takes the same queries from all. Queries that one of them skips are left out.
    """
    means, resampled = _bootstrap_means(columns, generator, n)
    return list(map(_estimate, means, resampled.T))


def bootstrap_drop(
    clean: np.ndarray, corrupted: np.ndarray, generator: np.random.Generator, n: int = RESAMPLES
) -> DropEstimate:
    """The drop of one method with percentile intervals from ``n`` paired bootstrap samples of the queries.

    ``clean`` and ``corrupted`` [N] are means over seeds and draws query by query (``per_query_mean``): the
    interval speaks of other test photos of these classes, for these models and draws. Queries that either
    skips are left out.
    """
    means, resampled = _bootstrap_means([clean, corrupted], generator, n)
    return DropEstimate(*map(_estimate, _drops(*means), _drops(*resampled.T)))


def bootstrap_difference_of_drops(
    clean_a: np.ndarray,
    corrupted_a: np.ndarray,
    clean_b: np.ndarray,
    corrupted_b: np.ndarray,
    generator: np.random.Generator,
    n: int = RESAMPLES,
) -> DropEstimate:
    """By how much method a drops more than method b (drop of a - drop of b), with percentile intervals.

    All four arrays [N] are of the same queries, and each bootstrap sample takes the same queries from all
    four. An interval of ``relative`` that excludes 0 says that the methods suffer differently from new
    backgrounds.
    """
    means, resampled = _bootstrap_means([clean_a, corrupted_a, clean_b, corrupted_b], generator, n)
    drops = [(_drops(m[0], m[1]), _drops(m[2], m[3])) for m in (means, resampled.T)]
    points, spreads = ((a[0] - b[0], a[1] - b[1]) for a, b in drops)
    return DropEstimate(*map(_estimate, points, spreads))


def _seeds_by_draws(values: np.ndarray) -> np.ndarray:
    values = np.asarray(values, dtype=np.float64)
    if values.ndim != 2:
        raise ValueError(f"values must be [seeds, draws], not of shape {values.shape}")
    return values


def _drops(clean: np.ndarray, corrupted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Absolute and relative drops of arrays of means."""
    nothing = np.full(np.shape(clean), np.nan)
    return clean - corrupted, 1 - np.divide(corrupted, clean, out=nothing, where=np.asarray(clean) != 0)


def _estimate(value: np.ndarray, resampled: np.ndarray) -> Estimate:
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(resampled, [tail, 1 - tail])
    return Estimate(float(value), float(low), float(high))


def _bootstrap_means(
    columns: list[np.ndarray], generator: np.random.Generator, n: int
) -> tuple[np.ndarray, np.ndarray]:
    """Means [C] of C paired columns [N], and [n, C] over n samples of N queries that all columns share."""
    if len({np.shape(column) for column in columns}) != 1:
        raise ValueError("paired columns must hold the same queries")
    paired = np.stack([np.asarray(column, dtype=np.float64) for column in columns], axis=1)
    paired = paired[~np.isnan(paired).any(axis=1)]
    size = len(paired)
    if not size:
        raise ValueError("no query is left: all are skipped")
    resampled = np.empty((n, len(columns)))
    rows = max(1, BLOCK // size)
    for start in range(0, n, rows):
        count = min(rows, n - start)
        drawn = generator.integers(size, size=(count, size))
        # How often each query was drawn, for `count` samples at once: [count, size], then one matrix product.
        drawn += size * np.arange(count)[:, None]
        times = np.bincount(drawn.ravel(), minlength=count * size).reshape(count, size)
        resampled[start : start + count] = times.astype(np.float64) @ paired / size
    return paired.mean(axis=0), resampled
