"""Means, drops and their uncertainty: the only place where per-query values become reported numbers.

What could have come out otherwise is which classes were asked for and, where a method is judged, with which seeds it was trained.
Photos of one class are alike, and so are all queries of one training: neither is further evidence (docs/methods.md, section 12).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

CONFIDENCE = 0.95
SIGNIFICANT = 0.05
# With fewer there is no interval, or none over seeds, that holds what it promises (the simulation in docs/methods.md).
FEWEST_CLASSES, FEWEST_SEEDS = 5, 3
# Where fewer classes hold most of an effect, intervals are too narrow and p too small, however many classes there are (there,
# "Skewed effects").
FEWEST_HARD = 10
# Of five classes and three seeds some kinds have less than 3 % of false stars, so that true differences are missed (there,
# "again"); these numbers of classes or of seeds are the next that were simulated, and have them.
STARRED_CLASSES, STARRED_SEEDS = 10, 5
# Below the first a p is 0; so many halvings of its logarithm find one to 12 digits.
SMALLEST_P, HALVINGS = 1e-16, 50
# From the means of columns, each an array of one shape, to the number that is made of them, an array of that shape.
Statistic = Callable[..., np.ndarray]


@dataclass(frozen=True)
class Estimate:
    """A number, the ends of its interval, and the p of its lying so far from 0 by chance; what cannot be had is NaN.

    The interval speaks of other classes and other training seeds if the values came from ``FEWEST_SEEDS`` seeds or more: of the
    method. From fewer it speaks of other classes alone: of these models.
    """

    value: float
    low: float = math.nan
    high: float = math.nan
    p: float = math.nan

    @property
    def is_significant(self) -> bool:
        """Whether it differs from 0 by more than chance; False without a p."""
        return self.p < SIGNIFICANT

    @property
    def is_above(self) -> bool:
        """Significantly above 0."""
        return self.is_significant and self.value > 0

    @property
    def is_below(self) -> bool:
        """Significantly below 0."""
        return self.is_significant and self.value < 0


UNKNOWN = Estimate(math.nan)


def itself(mean: np.ndarray) -> np.ndarray:
    """A column's mean as it is."""
    return mean


def difference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """By how much the first is larger."""
    return a - b


def relative_drop(clean: np.ndarray, corrupted: np.ndarray) -> np.ndarray:
    """1 - corrupted / clean; relative to nothing (clean = 0) it is NaN."""
    nothing = np.full(np.shape(clean), np.nan)
    return 1 - np.divide(corrupted, clean, out=nothing, where=np.asarray(clean) != 0)


def at_most_all(drop: Estimate) -> Estimate:
    """A relative drop whose interval ends where all is lost, which Student's t does not know."""
    return replace(drop, high=min(drop.high, 1.0))


def change_of_relative_drop(
    clean: np.ndarray, corrupted: np.ndarray, before_clean: np.ndarray, before_corrupted: np.ndarray
) -> np.ndarray:
    """A relative drop minus another: below 0 where less is lost than before."""
    return relative_drop(clean, corrupted) - relative_drop(before_clean, before_corrupted)


def estimate(
    columns: Sequence[np.ndarray],
    classes: np.ndarray,
    of: Statistic = itself,
    of_others: Sequence[np.ndarray] | None = None,
) -> Estimate:
    """A number made of the means of several columns of values, its 95 % interval over classes and training seeds, and the p of
    its lying so far from 0 by chance, which is corrected for no other test (``holm``).

    ``columns``: arrays of values [S, N], or [N] for a single model, of the same N queries and S seeds in each, so that what is
    compared is paired, seeds by their place; NaN for a query that is skipped, which is then left out of all. ``classes`` [N]: the
    class of each query. ``of`` makes the number from the columns' means over seeds and queries (so that a large class counts for
    more than a small one), smoothly and for whole arrays of means at once; as ``relative_drop`` and ``difference`` do.
    ``of_others``: of the same shapes, where a query's value depends on which other classes there are: the sum over a class is
    what it means for the values of all others together, by how much their sum would change without it
    (``evaluation.exclusion``).

    Of classes alone, the variance is that of the number without each class in turn (the delete-one jackknife, Tukey 1958; of
    clusters: CV3 in MacKinnon, Nielsen & Webb 2023), with Student's t (``_Classed.degrees_of_freedom``). With ``FEWEST_SEEDS``
    seeds or more, the variance without each seed is the other part, and their lengths are put together as ``_of_both`` says.
    With fewer than ``FEWEST_CLASSES`` classes there is neither interval nor p. Where fewer than ``FEWEST_HARD`` classes hold most
    of an effect, the interval is too narrow and p too small, and no other way that was simulated helps (docs/methods.md).

    Raises ValueError if columns differ in shape or are no arrays, if ``classes`` are not as many as queries, or if no query is
    left.
    """
    if isinstance(columns, np.ndarray):
        raise ValueError(
            "columns must be several arrays, not one; of one column: estimate([values], classes)"
        )
    shapes = {np.shape(column) for column in (*columns, *(of_others or ()))}
    if len(shapes) != 1:
        raise ValueError("paired columns must hold the same queries of the same seeds")
    shape = shapes.pop()
    if len(shape) not in (1, 2):
        raise ValueError(f"columns must be [S, N] or [N] each, not {list(shape)}")
    if np.shape(classes) != shape[-1:]:
        raise ValueError(f"classes must be [{shape[-1]}], one for each query, not {list(np.shape(classes))}")
    values = np.stack([np.atleast_2d(np.asarray(c, dtype=np.float64)) for c in columns], axis=-1)
    others = np.zeros_like(values)
    if of_others is not None:
        others = np.stack([np.atleast_2d(np.asarray(c, dtype=np.float64)) for c in of_others], axis=-1)
    classed = _Classed.from_values(values, others, np.asarray(classes))
    gone = classed.sums - classed.of_others
    seeds, number = classed.sums.shape[:2]
    every, total = classed.sizes.sum(), classed.sums.sum((0, 1))

    def evaluate(sums: np.ndarray, queries: np.ndarray) -> np.ndarray:
        return of(*np.moveaxis(sums / np.asarray(queries)[..., None], -1, 0))

    value = float(evaluate(total, seeds * every))
    if number < FEWEST_CLASSES or not math.isfinite(value):
        return Estimate(value)
    of_classes = _jackknife(evaluate(total - gone.sum(0), seeds * (every - classed.sizes)))
    worth = classed.degrees_of_freedom(_gradient(of, total / (seeds * every)))
    if seeds < FEWEST_SEEDS:
        return _by_student(value, of_classes, worth)
    of_seeds = _jackknife(evaluate(total - classed.sums.sum(1), np.full(seeds, (seeds - 1) * every)))
    together = _interaction(evaluate(total - gone, seeds * every - classed.sizes))
    return _of_both(value, (of_seeds, seeds - 1), (of_classes, worth), together)


@dataclass(frozen=True)
class _Classed:
    """Values by class: ``sums`` [S, G, C], ``sizes`` [G], and the scatter of queries (means over seeds) within classes, [C,
    C]."""

    sums: np.ndarray
    of_others: np.ndarray
    sizes: np.ndarray
    within: np.ndarray

    @classmethod
    def from_values(cls, values: np.ndarray, of_others: np.ndarray, classes: np.ndarray) -> _Classed:
        """From values [S, N, C]; queries that one column or seed skips are left out."""
        counted = ~np.isnan(values).any(axis=(0, 2))
        if not counted.any():
            raise ValueError("no query is left: all are skipped")
        _, index, sizes = np.unique(classes[counted], return_inverse=True, return_counts=True)
        order = np.argsort(index, kind="stable")
        in_order = values[:, counted][:, order]
        starts = np.cumsum(sizes) - sizes
        sums = np.add.reduceat(in_order, starts, axis=1)
        others = np.add.reduceat(of_others[:, counted][:, order], starts, axis=1)
        apart = in_order.mean(0) - (sums.mean(0) / sizes[:, None])[index[order]]
        return cls(sums, others, sizes, apart.T @ apart)

    def degrees_of_freedom(self, gradient: np.ndarray) -> float:
        """Those of a variance over classes: G - 1 if all are of one size, else the harmonic mean of G - 1 and of (G - 1) / G
        times the number of classes of equal size that these are worth (Carter, Schnepel & Steigerwald 2017).

        The latter alone make intervals too long: a large class that lies far off moves the number and its variance alike. G - 1
        alone makes them too short. The mean holds what it promises in the simulations of docs/methods.md.

        A class's share of the variance is its size squared times the variance of its mean, which is one of classes and one of
        queries; these two come from an analysis of variance of the linear form that ``gradient`` [C] makes of the columns.
        """
        sizes, number, every = self.sizes, len(self.sizes), self.sizes.sum()
        means = (self.sums.mean(0) / sizes[:, None]) @ gradient
        queries = float(gradient @ self.within @ gradient) / max(every - number, 1)
        between = float((sizes * (means - means @ sizes / every) ** 2).sum())
        classes = max(0.0, (between - (number - 1) * queries) / float(every - (sizes**2).sum() / every))
        share = sizes**2 * (classes + queries / sizes)
        effective = share.sum() ** 2 / (share**2).sum() if share.any() else number
        return 2 * (number - 1) * float(effective) / (float(effective) + number)


def _gradient(statistic: Statistic, means: np.ndarray) -> np.ndarray:
    """The slope [C] of a statistic at columns' means [C], by central differences."""
    step = 1e-6
    ways = step * np.eye(len(means))
    return (statistic(*(means + ways).T) - statistic(*(means - ways).T)) / (2 * step)


def _jackknife(without: np.ndarray) -> float:
    """The variance of a number from what it is without each unit in turn."""
    return float((without.size - 1) * np.mean((without - without.mean()) ** 2))


def _interaction(without: np.ndarray) -> float:
    """The variance that seed and class have together, over what each has by itself, from a number [S, G] without each class of
    each seed: the mean square of what is left of an analysis of variance.
    """
    seeds, classes = without.shape
    residual = without - without.mean(0) - without.mean(1, keepdims=True) + without.mean()
    freedom = (seeds - 1) * (classes - 1)
    return float((residual**2).sum() * (without.size - 1) ** 2 / (without.size * freedom))


def _of_both(
    value: float, seeds: tuple[float, float], classes: tuple[float, float], together: float
) -> Estimate:
    """The interval over seeds and classes: of each the variance v and its degrees of freedom f, and the variance that they have
    ``together``, which either v holds and which counts once (two-way clustering: Cameron, Gelbach & Miller 2011).

    With the seeds' variance taken whole and the classes' over what is together, a square of the reach is made of the squares of
    lengths by each part's own t. Their sum would be too long (Banerjee 1960); they are added as powers p = 1 + 3 / min(f):
    h^2p = (t_s^2 v_s)^p + (t_c^2 (v_c - together)+)^p. The other way round there is another square; the reach is the root of the
    harmonic mean of both, weighted by the degrees of freedom of the part that is not whole. What it covers: docs/methods.md.
    """
    from scipy.special import stdtrit

    variances, freedoms = np.array([seeds, classes]).T
    power, over = 1 + 3 / freedoms.min(), np.maximum(variances - together, 0)

    def reach(level: float) -> float:
        squares = stdtrit(freedoms, level / 2) ** 2
        ways = ((squares * variances) ** power + (squares * over)[::-1] ** power) ** (1 / power)
        if not ways.all():
            return math.sqrt(ways.max())
        return math.sqrt(freedoms.sum() / (freedoms[::-1] / ways).sum())

    half = reach(1 - CONFIDENCE)
    if not math.isfinite(half):
        return Estimate(value)
    # The level at which the interval would end at 0.
    low, high = math.log(SMALLEST_P), 0.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if reach(math.exp(middle)) > abs(value) else (low, middle)
    p = math.exp(high) if reach(SMALLEST_P) > abs(value) else float(value == 0)
    return Estimate(value, value - half, value + half, p)


def _by_student(value: float, variance: float, freedom: float) -> Estimate:
    from scipy.special import stdtr, stdtrit

    error = math.sqrt(variance)
    reach = float(stdtrit(freedom, (1 + CONFIDENCE) / 2)) * error
    p = 2 * float(stdtr(freedom, -abs(value) / error)) if error else float(value == 0)
    return Estimate(value, value - reach, value + reach, p)


def holm(p: Sequence[float]) -> np.ndarray:
    """``p`` of several tests, each raised so that one in twenty families holds a false one below .05 (Holm 1979).

    NaN, no test, is not counted and stays.
    """
    raised = np.asarray(p, dtype=np.float64).copy()
    order = np.argsort(raised)[: int((~np.isnan(raised)).sum())]
    factors = np.arange(len(order), 0, -1)
    raised[order] = np.minimum(1, np.maximum.accumulate(raised[order] * factors))
    return raised


def mean(values: np.ndarray) -> float:
    """The mean of ``values`` over queries (not over classes), those that are skipped left out; NaN if none is left."""
    counted = values[~np.isnan(values)]
    return float(counted.mean()) if len(counted) else math.nan


def sd_over_seeds(values: np.ndarray) -> float:
    """Spread of training: sample sd (ddof 1) over seeds of each model's mean over draws.

    ``values`` [S, D] holds one metric's mean over queries for S training seeds and D background draws. NaN
    for a single seed.
    """
    by_seed = values.mean(axis=1)
    return float(by_seed.std(ddof=1)) if len(by_seed) > 1 else math.nan


def sd_over_draws(values: np.ndarray) -> float:
    """Spread of the backgrounds: each model's sample sd (ddof 1) over draws, averaged over the models.

    ``values`` [S, D] as for ``sd_over_seeds``; S = 1 is the ± of Kobs & Hotho's Table 1. NaN for a single
    draw.
    """
    return float(values.std(axis=1, ddof=1).mean()) if values.shape[1] > 1 else math.nan
