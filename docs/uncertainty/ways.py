"""Other ways to an interval over seeds and classes, beside the one that ``bgbias.estimate`` goes: how often each holds the truth.

Studies are balanced: a normal value of each class of each seed, whose parts (seed, class, both together) are known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
import pandas as pd
from scipy import stats

from bgbias.results.uncertainty import CONFIDENCE

STUDIES = 2000
SEEDS, CLASSES = (3, 5, 10), (5, 10, 25, 100)
# Variances of a seed for all classes, of a class, and of both together. A seed's is that, or as much of the mean's as theirs.
MIXTURES = (
    *((0.0, 0.0, 1.0), (0.0, 1.0, 1.0), (0.02, 1.0, 1.0), (0.1, 1.0, 1.0), (0.5, 1.0, 1.0), (0.0, 1.0, 0.1)),
    *((0.02, 1.0, 0.1), (0.1, 1.0, 0.1), (0.5, 1.0, 0.1), (1.0, 0.1, 0.1), (0.02, 0.1, 1.0), (0.1, 0.1, 1.0)),
)


@dataclass(frozen=True)
class Parts:
    """Of many studies [n], each of so many seeds and classes: the mean, whose truth is 0, and the variance that it has without
    one seed, one class, or one class of one seed at a time (delete-one jackknife).
    """

    seeds: int
    classes: int
    mean: np.ndarray
    of_seeds: np.ndarray
    of_classes: np.ndarray
    of_cells: np.ndarray

    @property
    def together(self) -> np.ndarray:
        """The variance that seed and class have together, over what each has by itself."""
        number = self.seeds * self.classes
        every = self.of_cells * (number - 1)
        left = every - self.of_seeds * (self.seeds - 1) - self.of_classes * (self.classes - 1)
        return left / ((self.seeds - 1) * (self.classes - 1))

    @property
    def floored(self) -> np.ndarray:
        """The variance of two-way clustering, no less than that over seeds or over classes alone."""
        both = self.of_seeds + self.of_classes - self.of_cells
        return np.maximum(both, np.maximum(self.of_seeds, self.of_classes))

    @classmethod
    def of(cls, values: np.ndarray) -> Parts:
        """From values [n, S, G]."""
        n, seeds, classes = values.shape
        by_seed, by_class = values.mean(2), values.mean(1)
        cells = values.reshape(n, -1).var(1, ddof=1) / (seeds * classes)
        of_seeds, of_classes = by_seed.var(1, ddof=1) / seeds, by_class.var(1, ddof=1) / classes
        return cls(seeds, classes, values.mean((1, 2)), of_seeds, of_classes, cells)


# From the parts of studies to half the length of their intervals.
Way = Callable[[Parts], np.ndarray]


def student(variance: np.ndarray, freedom: np.ndarray) -> np.ndarray:
    """By Student's t of at least one degree of freedom."""
    return np.asarray(stats.t.ppf((1 + CONFIDENCE) / 2, np.maximum(1.0, freedom)) * np.sqrt(variance))


def used(p: Parts) -> np.ndarray:
    """As ``bgbias.estimate``."""
    parts = [(p.of_seeds, p.seeds - 1), (p.of_classes, p.classes - 1)]
    power = 2 + 6 / min(freedom for _, freedom in parts)
    inverse = np.zeros_like(p.mean)
    for (whole, few), (other, many) in (parts, parts[::-1]):
        lengths = student(whole, np.array(few)), student(np.maximum(other - p.together, 0), np.array(many))
        inverse += many / (few + many) / (lengths[0] ** power + lengths[1] ** power) ** (2 / power)
    return inverse**-0.5


def banerjee(p: Parts) -> np.ndarray:
    """Squares of the lengths by either t, added (Banerjee 1960)."""
    lengths = student(p.of_seeds, np.array(p.seeds - 1)), student(p.of_classes, np.array(p.classes - 1))
    return np.asarray(np.hypot(*lengths))


def satterthwaite(p: Parts) -> np.ndarray:
    """Two-way clustering with Satterthwaite's degrees of freedom of seeds and classes."""
    return student(
        p.floored, p.floored**2 / (p.of_seeds**2 / (p.seeds - 1) + p.of_classes**2 / (p.classes - 1))
    )


def all_three(p: Parts) -> np.ndarray:
    """Satterthwaite's degrees of freedom of all three parts."""
    every = p.of_seeds**2 / (p.seeds - 1) + p.of_classes**2 / (p.classes - 1)
    return student(p.floored, p.floored**2 / (every + p.of_cells**2 / (p.seeds * p.classes - 1)))


def fewest(p: Parts) -> np.ndarray:
    """As many degrees of freedom as the fewer of seeds and classes are, minus one (Cameron, Gelbach & Miller 2011)."""
    return student(p.floored, np.full_like(p.mean, min(p.seeds, p.classes) - 1))


def weighted(p: Parts) -> np.ndarray:
    """The t of seeds and that of classes, weighted by their variances (Cochran & Cox 1957, for two means)."""
    parts = [
        student(v, np.full_like(v, n - 1)) for v, n in ((p.of_seeds, p.seeds), (p.of_classes, p.classes))
    ]
    own = [np.sqrt(v) * part for v, part in zip((p.of_seeds, p.of_classes), parts, strict=True)]
    return np.asarray(np.sqrt(p.floored) * sum(own) / (p.of_seeds + p.of_classes))


def components(p: Parts) -> np.ndarray:
    """Variance components by analysis of variance, none below 0, with Satterthwaite's degrees of freedom."""
    freedom, both = (p.seeds - 1) * (p.classes - 1), p.together
    of_seeds, of_classes = np.maximum(p.of_seeds - both, 0), np.maximum(p.of_classes - both, 0)
    variance = of_seeds + of_classes + both
    squares = of_seeds**2 / (p.seeds - 1) + of_classes**2 / (p.classes - 1) + both**2 / freedom
    return student(variance, variance**2 / squares)


WAYS: dict[str, Way] = {
    "as used here": used,
    "squares of both parts' lengths added": banerjee,
    "two-way clustering, Satterthwaite's degrees of freedom": satterthwaite,
    "degrees of freedom of all three parts": all_three,
    "one less than the fewer of seeds and classes": fewest,
    "both t weighted by their variances": weighted,
    "components of variance, none below 0": components,
}


def kinds() -> Iterator[tuple[int, int, tuple[float, float, float]]]:
    """Seeds, classes and variances of what is simulated."""
    for seeds, classes, (of_seed, of_class, both) in product(SEEDS, CLASSES, MIXTURES):
        yield seeds, classes, (of_seed, of_class, both)
        yield seeds, classes, (4 * of_seed * seeds / classes, of_class, both)


def table(studies: int = STUDIES) -> pd.DataFrame:
    """A row a way and a kind: how often the interval holds the truth."""
    rows = []
    for number, (seeds, classes, variances) in enumerate(kinds()):
        random = np.random.default_rng(number)
        shapes = ((studies, seeds, 1), (studies, 1, classes), (studies, seeds, classes))
        values = sum(
            np.sqrt(variance) * random.normal(size=shape)
            for variance, shape in zip(variances, shapes, strict=True)
        )
        parts = Parts.of(np.asarray(values))
        for name, way in WAYS.items():
            covered = float(np.mean(np.abs(parts.mean) <= way(parts)))
            rows.append({"way": name, "seeds": seeds, "classes": classes, "kind": number, "covered": covered})
    return pd.DataFrame(rows)
