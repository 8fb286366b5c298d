"""What ways to an interval over classes hold where effects are skewed over classes, and what they cost where they are not.

Of one model or of two fixed ones. Each way is a test of the truth: an interval holds it where that is not rejected, and a
difference of 0 gets a star where it is. Of methods, trained with several seeds, there is the way that is used here alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd
import ways  # beside this file, as coverage is
from coverage import OF_METHODS, OF_QUERIES, QUERIES, uneven
from scipy.special import expit, logit, stdtrit

from bgbias.results.uncertainty import (
    CONFIDENCE,
    SIGNIFICANT,
    Statistic,
    _Classed,
    _gradient,
    change_of_relative_drop,
    difference,
    itself,
    relative_drop,
)

CLASSES, SEEDS = (5, 10, 25, 50, 100, 250), (3, 5)
STUDIES = 1000
# How many at a time, whose classes are of the same sizes.
OF_EQUAL_SIZES, OF_UNEQUAL_SIZES = 100, 2
RESAMPLES = 999  # the same for all studies
# Of methods, the variances of a seed, by that of the mean of classes, and of seed and class together, by that of classes.
MIXTURE = (1.0, 0.1)


@dataclass(frozen=True)
class Sample:
    """Studies [n]: a number that is made of each, and its truth; the pseudo-values of classes [n, G] minus the truth, whose mean
    has the jackknife's variance; and the degrees of freedom that ``bgbias.estimate`` gives it [n].
    """

    value: np.ndarray
    truth: float
    pseudo: np.ndarray
    freedom: np.ndarray
    of: Statistic

    @classmethod
    def made(cls, values: np.ndarray, sizes: np.ndarray, of: Statistic, truth: float) -> Sample:
        """From queries' values [n, N, C], sorted by class."""
        starts, every, number = np.cumsum(sizes) - sizes, sizes.sum(), len(sizes)
        sums = np.add.reduceat(values, starts, axis=1)
        total = sums.sum(axis=1)
        value = of(*(total / every).T)
        without = of(*np.moveaxis((total[:, None] - sums) / (every - sizes)[:, None], -1, 0))
        apart = values - np.repeat(sums / sizes[:, None], sizes, axis=1)
        freedom = [
            _Classed(s[None], s[None], sizes, a.T @ a).degrees_of_freedom(_gradient(of, t / every))
            for s, a, t in zip(sums, apart, total, strict=True)
        ]
        pseudo = value[:, None] + (number - 1) * (without.mean(axis=1, keepdims=True) - without)
        return cls(value, truth, pseudo - truth, np.array(freedom), of)

    @property
    def error(self) -> np.ndarray:
        return self.pseudo.std(axis=1, ddof=1) / np.sqrt(self.pseudo.shape[1])

    @property
    def t(self) -> np.ndarray:
        return (self.value - self.truth) / self.error

    @property
    def reach(self) -> np.ndarray:
        return stdtrit(self.freedom, (1 + CONFIDENCE) / 2)

    @property
    def slope(self) -> np.ndarray:
        """The skewness of classes by the root of their number."""
        centred = self.pseudo - self.pseudo.mean(axis=1, keepdims=True)
        skewness = (centred**3).mean(axis=1) / (centred**2).mean(axis=1) ** 1.5
        return skewness / np.sqrt(self.pseudo.shape[1])


# Whether the interval of each study holds the truth; NaN where a way has none.
Way = Callable[[Sample], np.ndarray]


def student(s: Sample) -> np.ndarray:
    """As ``bgbias.estimate``."""
    return np.abs(s.t) <= s.reach


def transformed(s: Sample) -> np.ndarray:
    """Student's of the logit of a level, and of the logarithm of what a drop leaves; a difference has no such scale."""
    if s.of is relative_drop:
        kept = np.maximum(1 - s.value, 1e-9)
        return np.abs(np.log(kept / (1 - s.truth))) <= s.reach * s.error / kept
    if s.of is itself and s.truth:
        inside = np.clip(s.value, 1e-9, 1 - 1e-9)
        return np.abs(logit(inside) - logit(s.truth)) <= s.reach * s.error / (inside * (1 - inside))
    return np.full(len(s.value), np.nan)


def johnson(s: Sample) -> np.ndarray:
    """The t with Johnson's (1978) terms of skewness."""
    return np.abs(s.t + s.slope * (1 / 6 + s.t**2 / 3)) <= s.reach


def hall(s: Sample) -> np.ndarray:
    """The same with Hall's (1992) third term, by which it rises everywhere."""
    return np.abs(s.t + s.slope * (1 / 6 + s.t**2 / 3) + s.slope**2 * s.t**3 / 27) <= s.reach


def either(s: Sample) -> np.ndarray:
    """From the lower of Student's and Hall's ends to the higher."""
    return student(s) | hall(s)


def bootstrap(s: Sample) -> np.ndarray:
    """Classes drawn anew, studentised, each tail by itself."""
    drawn = _studentised(s.pseudo - (s.value - s.truth)[:, None], _counts(s.pseudo.shape[1]))
    low, high = np.nanquantile(drawn, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2], axis=1)
    return (low <= s.t) & (s.t <= high)


def webb(s: Sample) -> np.ndarray:
    """Wild cluster bootstrap-t with Webb's six weights, the truth imposed (MacKinnon, Nielsen & Webb 2023)."""
    return _wild(s, (0.5, 1.0, 1.5))


def flips(s: Sample) -> np.ndarray:
    """The signs of classes' distances from the truth, flipped."""
    return _wild(s, (1.0,))


def _wild(s: Sample, squares: tuple[float, ...]) -> np.ndarray:
    drawn = np.abs(_studentised(s.pseudo, _weights(s.pseudo.shape[1], squares)))
    as_far = (drawn >= np.abs(s.t)[:, None] * (1 - 1e-9)).sum(axis=1)
    return (1 + as_far) / (1 + RESAMPLES) >= SIGNIFICANT


def _studentised(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The t of classes as often as ``weights`` [RESAMPLES, G] say (counts), or times these; NaN where they do not vary."""
    number = values.shape[1]
    means = values @ weights.T / number
    is_counts = (weights >= 0).all()
    squares = values**2 @ (weights if is_counts else weights**2).T / number
    variances = (squares - means**2) / (number - 1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(variances > 1e-15, means / np.sqrt(np.maximum(variances, 0)), np.nan)


@cache
def _counts(number: int) -> np.ndarray:
    return np.random.default_rng(number).multinomial(number, np.full(number, 1 / number), RESAMPLES) * 1.0


@cache
def _weights(number: int, squares: tuple[float, ...]) -> np.ndarray:
    roots = np.sqrt(squares)
    return np.random.default_rng(number).choice([*-roots, *roots], (RESAMPLES, number))


WAYS: dict[str, Way] = {
    "as used here": student,
    "transformed": transformed,
    "Johnson": johnson,
    "Hall": hall,
    "Student's or Hall's": either,
    "bootstrap-t": bootstrap,
    "wild bootstrap": webb,
    "sign flips": flips,
}

# From a shape [n, G], the sizes of classes [G] and chance to the values of classes, [n, G] or [n, G, C].
Draw = Callable[[tuple[int, int], np.ndarray, np.random.Generator], np.ndarray]
# Which columns it is made of, how, and its truth.
Number = tuple[tuple[int, ...], Statistic, float]


@dataclass(frozen=True)
class Kind:
    """A law of classes, the numbers that are made of it, the standard deviation of queries about their class, and whether classes
    are of unequal size.
    """

    draw: Draw
    numbers: dict[str, Number]
    noise: float = 0.0
    uneven: bool = False


def logistic(shape: tuple[int, int], sizes: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Two models that do not differ, clean and corrupted, as in coverage.py."""
    clean, kept = (
        expit(
            middle
            + OF_QUERIES * random.normal(size=(*shape, 1))
            + OF_METHODS * random.normal(size=(*shape, 2))
        )
        for middle in (0.4, 0.3)
    )
    return np.concatenate([clean, clean * kept], axis=-1)


def poor(shape: tuple[int, int], sizes: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """The same with a clean MAP@R of 5 % in the mean, and of much in some classes."""
    clean = 0.05 * random.lognormal(-0.5, 1, (*shape, 1)) * random.lognormal(-0.045, 0.3, (*shape, 2))
    kept = expit(1.2 * random.normal(size=(*shape, 1)) + 0.5 * random.normal(size=(*shape, 2)))
    return np.concatenate([clean, clean * kept], axis=-1)


def easy_if_large(shape: tuple[int, int], sizes: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Levels that go with the logarithm of a class's size, correlation .9."""
    of_size = (np.log(sizes / QUERIES) + 0.32) / 0.8
    return expit(0.5 + 0.9 * of_size + np.sqrt(1 - 0.9**2) * random.normal(size=shape))


def two(share: float, rare: float, usual: float, spread: float) -> Draw:
    """A share of classes is of one level, all others of another."""
    return lambda shape, _, r: np.where(r.random(shape) < share, rare, usual) + spread * r.normal(size=shape)


def _level(truth: float) -> dict[str, Number]:
    return {"mean covered": ((0,), itself, truth)}


def _models(level: float, drop: float) -> dict[str, Number]:
    """Of two models that do not differ, clean 0 and 1, corrupted 2 and 3."""
    return _level(level) | {
        "drop covered": ((0, 2), relative_drop, drop),
        "difference starred": ((2, 3), difference, 0.0),
        "change starred": ((0, 2, 1, 3), change_of_relative_drop, 0.0),
    }


def _mean_of_expit(middle: float, *deviations: float) -> float:
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    return float(weights @ expit(middle + np.hypot(*deviations) * nodes)) / weights.sum()


def _mean_if_large() -> float:
    """Over queries, of a million classes."""
    random = np.random.default_rng(0)
    sizes = uneven(1_000_000, random)
    return float(np.average(easy_if_large((1, len(sizes)), sizes, random)[0], weights=sizes))


def kinds() -> dict[str, Kind]:
    """What is simulated, by name."""
    kept = 1 - _mean_of_expit(0.3, OF_QUERIES, OF_METHODS)
    of_logistic = _models(_mean_of_expit(0.4, OF_QUERIES, OF_METHODS), kept)
    starred: dict[str, Number] = {"difference starred": ((0,), itself, 0.0)}
    return {
        "logistic, equal sizes": Kind(logistic, of_logistic),
        "logistic, unequal sizes": Kind(logistic, of_logistic, uneven=True),
        "half easy, half hard": Kind(lambda s, _, r: r.beta(0.5, 0.5, s), _level(0.5), 0.1),
        "most easy, few hard": Kind(lambda s, _, r: r.beta(0.8, 0.2, s), _level(0.8), 0.1),
        "one in twelve hard": Kind(two(1 / 12, 0.2, 0.9, 0.03), _level(0.9 - 0.7 / 12), 0.1),
        "lognormal levels": Kind(lambda s, _, r: 0.1 * r.lognormal(-0.5, 1, s), _level(0.1), 0.03),
        "large classes easy": Kind(easy_if_large, _level(_mean_if_large()), 0.1, uneven=True),
        "clean MAP@R of 5 %": Kind(poor, _models(0.05, 1 - _mean_of_expit(0.0, 1.2, 0.5))),
        "normal differences": Kind(lambda s, _, r: r.normal(size=s), starred, 0.3),
        "heavy tails (t of 3)": Kind(lambda s, _, r: r.standard_t(3, s), starred, 0.3),
        "skewness 1.4": Kind(lambda s, _, r: r.gamma(2, 1, s) - 2, starred, 0.3),
        "lognormal differences": Kind(lambda s, _, r: r.lognormal(0, 1, s) - np.exp(0.5), starred, 0.3),
        "8 % of classes harmed": Kind(two(0.08, -0.92, 0.08, 0.02), starred, 0.05),
        "a true one, 3 errors": Kind(lambda s, _, r: r.normal(size=s) + 3 / np.sqrt(s[1]), starred, 0.3),
    }


def shares(kind: Kind, number: int, random: np.random.Generator) -> Iterator[dict[str, object]]:
    """A row a number: of studies of so many classes, the share that each way covers or stars."""
    at_a_time = OF_UNEQUAL_SIZES if kind.uneven else OF_EQUAL_SIZES
    held = {name: dict.fromkeys(WAYS, 0.0) for name in kind.numbers}
    for _ in range(STUDIES // at_a_time):
        sizes = uneven(number, random) if kind.uneven else np.full(number, QUERIES)
        of_class = kind.draw((at_a_time, number), sizes, random).reshape(at_a_time, number, -1)
        values = np.repeat(of_class, sizes, axis=1)
        values += kind.noise * random.normal(size=values.shape)
        for name, (columns, of, truth) in kind.numbers.items():
            sample = Sample.made(values[..., columns], sizes, of, truth)
            for way, holds in WAYS.items():
                held[name][way] += float(holds(sample).sum()) / STUDIES
    for name, of_ways in held.items():
        starred = name.endswith("starred")
        yield {"seeds": 1, "number": name} | {w: abs(1 - h) if starred else h for w, h in of_ways.items()}


def of_methods(kind: Kind, number: int, random: np.random.Generator) -> Iterator[dict[str, object]]:
    """The same of a difference of two methods, whose seeds differ for all classes and for each."""
    for seeds in SEEDS:
        of_class = kind.draw((STUDIES, number), np.full(number, QUERIES), random)[:, None]
        of_seed, of_both = np.sqrt(of_class.var() * MIXTURE[0] / number), np.sqrt(of_class.var() * MIXTURE[1])
        values = of_class + of_seed * random.normal(size=(STUDIES, seeds, 1))
        values = values + of_both * random.normal(size=(STUDIES, seeds, number))
        parts = ways.Parts.of(values)
        starred = float(np.mean(np.abs(parts.mean) > ways.used(parts)))
        yield {"seeds": seeds, "number": "difference starred", "as used here": starred}


def table() -> pd.DataFrame:
    """A row a kind, number of classes, of seeds, and number."""
    rows: list[dict[str, object]] = []
    for seed, (name, kind) in enumerate(kinds().items()):
        for number in CLASSES:
            random = np.random.default_rng([seed, number])
            of_kind = [*shares(kind, number, random)]
            if [*kind.numbers] == ["difference starred"]:
                of_kind += of_methods(kind, number, random)
            rows += [{"kind": name, "classes": number} | row for row in of_kind]
    return pd.DataFrame(rows)
