"""Whether a difference between two methods is more than chance: for other queries, and for other training seeds.

A test over queries asks whether these models differ; one over seeds, whether the methods do. All are two-sided.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from bgbias.results.uncertainty import BLOCK, CONFIDENCE, Estimate

SIGNIFICANT = 0.05
FLIPS = 10_000


def sign_flip(differences: np.ndarray, generator: np.random.Generator, n: int = FLIPS) -> float:
    """p of a mean difference of 0, by ``n`` random flips of the signs of paired ``differences`` [N] (Fisher 1935).

    NaN is no difference and is left out; of nothing else p is unknown. The differences as they are count as one of the flips, so
    that p is never 0 (Phipson & Smyth 2010).
    """
    kept = differences[~np.isnan(differences)]
    if not len(kept):
        return math.nan
    # Flipping a sign takes twice the difference away; those of equal size may be summed in another order.
    observed = abs(kept.sum()) * (1 - 1e-9)
    as_large = 0
    rows = max(1, BLOCK // len(kept))
    for start in range(0, n, rows):
        count = min(rows, n - start)
        bits = np.frombuffer(generator.bytes(count * -(-len(kept) // 8)), np.uint8).reshape(count, -1)
        flipped = np.unpackbits(bits, axis=1, count=len(kept)).astype(np.float64) @ kept
        as_large += int((np.abs(kept.sum() - 2 * flipped) >= observed).sum())
    return (1 + as_large) / (1 + n)


def over_seeds(differences: np.ndarray) -> tuple[Estimate, float]:
    """The mean of paired ``differences`` [S], one a training seed, with Student's t interval and p of 0.

    Unknown (NaN) for a single seed. Of seeds that agree to the last bit the interval has no width.
    """
    from scipy.special import stdtr, stdtrit

    count = len(differences)
    if count < 2:
        return Estimate(float(differences.sum()) if count else math.nan, math.nan, math.nan), math.nan
    value, error = float(np.mean(differences)), float(np.std(differences, ddof=1)) / math.sqrt(count)
    reach = float(stdtrit(count - 1, (1 + CONFIDENCE) / 2)) * error
    p = 2 * float(stdtr(count - 1, -abs(value) / error)) if error else float(value == 0)
    return Estimate(value, value - reach, value + reach), p


def holm(p: Sequence[float]) -> np.ndarray:
    """``p`` of several tests, each raised so that one in twenty families holds a false one below .05 (Holm 1979).

    NaN, no test, is not counted and stays.
    """
    raised = np.asarray(p, dtype=np.float64).copy()
    order = np.argsort(raised)[: int((~np.isnan(raised)).sum())]
    factors = np.arange(len(order), 0, -1)
    raised[order] = np.minimum(1, np.maximum.accumulate(raised[order] * factors))
    return raised


def shares_of_relative_drop(clean: np.ndarray, corrupted: np.ndarray) -> np.ndarray:
    """Each query's share [N] of the relative drop 1 - mean(corrupted) / mean(clean), which is the shares' mean.

    A drop is no mean over queries, so that signs cannot be flipped in it; its linearisation is (infinitesimal jackknife):
    drop + (ratio * clean - corrupted) / mean(clean). NaN for a query that is skipped, and for all where nothing is ever found.
    """
    skipped = np.isnan(clean) | np.isnan(corrupted)
    mean_clean = clean[~skipped].mean() or math.nan
    ratio = corrupted[~skipped].mean() / mean_clean
    return np.where(skipped, math.nan, 1 - ratio + (ratio * clean - corrupted) / mean_clean)
