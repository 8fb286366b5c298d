"""Whether intervals and stars hold what they promise, by simulation: studies whose truth is known.

It is counted how often the interval of ``bgbias.estimate`` holds the truth, and how often two methods that do not differ get a
star.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product, repeat

import numpy as np
import pandas as pd

import bgbias
from bgbias.results.uncertainty import SIGNIFICANT, change_of_relative_drop, difference, itself, relative_drop

STUDIES = 1000
QUERIES = 20  # of a class, in the mean
# Standard deviations of what is drawn, before the logistic function.
OF_QUERIES, OF_METHODS, OF_TRAININGS = 0.9, 0.45, 0.3


@dataclass(frozen=True)
class Kind:
    """A kind of study: how many classes and seeds, the intraclass correlation of its queries, whether classes are of unequal
    size, and the standard deviations that a seed has for all classes and for each one.
    """

    classes: int
    seeds: int
    correlation: float
    uneven: bool
    of_seeds: float = 0.0
    of_seed_and_class: float = 0.0


@dataclass(frozen=True)
class Drawn:
    """One study of two methods that do not differ: the class of each query [N]; clean and corrupted values [S, N] of each."""

    classes: np.ndarray
    clean: tuple[np.ndarray, np.ndarray]
    corrupted: tuple[np.ndarray, np.ndarray]


def draw(kind: Kind, random: np.random.Generator) -> Drawn:
    """A study of this kind. A query's value follows from its class, itself, and, for the method trained with a seed, from the
    seed, from what the seed means for the class, and from chance; methods share the first two in part.
    """
    sizes = uneven(kind.classes, random) if kind.uneven else np.full(kind.classes, QUERIES)
    classes = np.repeat(np.arange(kind.classes), sizes)
    number = len(classes)

    def queries(rows: int = 1) -> np.ndarray:
        of_class = random.normal(size=(rows, kind.classes))[:, classes]
        alone = random.normal(size=(rows, number))
        return np.sqrt(kind.correlation) * of_class + np.sqrt(1 - kind.correlation) * alone

    def trainings() -> np.ndarray | float:
        if kind.seeds == 1:
            return 0.0  # the question is about these models
        of_seeds = random.normal(size=(kind.seeds, 1)) * kind.of_seeds
        of_both = random.normal(size=(kind.seeds, kind.classes))[:, classes] * kind.of_seed_and_class
        return of_seeds + of_both + OF_TRAININGS * random.normal(size=(kind.seeds, number))

    shared = OF_QUERIES * queries(), OF_QUERIES * queries()
    clean, kept = (
        [_share(middle + part + OF_METHODS * queries() + trainings()) for _ in range(2)]
        for middle, part in zip((0.4, 0.3), shared, strict=True)
    )
    return Drawn(classes, (clean[0], clean[1]), (clean[0] * kept[0], clean[1] * kept[1]))


def uneven(classes: int, random: np.random.Generator) -> np.ndarray:
    """Sizes of classes [classes], from a few to a hundred."""
    return np.maximum(2, QUERIES * random.lognormal(-0.32, 0.8, classes)).astype(int)


def truth(kind: Kind) -> tuple[float, float]:
    """The mean clean value and the relative drop of all classes, queries and seeds of this kind, by Gauss and Hermite's rule."""
    variance = OF_QUERIES**2 + OF_METHODS**2
    if kind.seeds > 1:
        variance += kind.of_seeds**2 + kind.of_seed_and_class**2 + OF_TRAININGS**2
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    clean, kept = (float(weights @ _share(m + np.sqrt(variance) * nodes)) / weights.sum() for m in (0.4, 0.3))
    return clean, 1 - kept


def rates(kind: Kind, studies: int, random: np.random.Generator) -> dict[str, float]:
    """How often the intervals of a mean and of a relative drop hold the truth, and how often a difference of means and a change
    of the drop get a star though there is none.
    """
    level, drop = truth(kind)
    counts = np.zeros(4)
    for _ in range(studies):
        study = draw(kind, random)
        (a, b), (x, y) = study.clean, study.corrupted
        mean = bgbias.estimate([a], study.classes, itself)
        lost = bgbias.estimate([a, x], study.classes, relative_drop)
        apart = bgbias.estimate([x, y], study.classes, difference)
        change = bgbias.estimate([a, x, b, y], study.classes, change_of_relative_drop)
        counts += [
            mean.low <= level <= mean.high,
            lost.low <= drop <= lost.high,
            apart.p < SIGNIFICANT,
            change.p < SIGNIFICANT,
        ]
    names = ("mean covered", "drop covered", "difference starred", "change starred")
    return dict(zip(names, (counts / studies).tolist(), strict=True))


def kinds() -> Iterator[Kind]:
    """What is simulated: of these models, and of the method, where seeds, classes or both together differ most."""
    for classes, correlation, uneven in product((5, 10, 25, 100), (0.0, 0.3, 0.8), (False, True)):
        yield Kind(classes, 1, correlation, uneven)
        for seeds, mixture in product((3, 5, 10), ((0.1, 0.1), (0.4, 0.1), (0.1, 0.4))):
            yield Kind(classes, seeds, correlation, uneven, *mixture)


def table(studies: int = STUDIES, which: Sequence[int] | None = None, run: int = 0) -> pd.DataFrame:
    """A row a kind of study, of the kinds numbered ``which`` or of all: what it is, and its rates. Another ``run`` draws other
    studies.
    """
    every = [*kinds()]
    numbers = range(len(every)) if which is None else which
    chosen = [every[number] for number in numbers]
    # A zero at the end of a seed changes nothing: run 0 draws what the number alone does.
    randoms = [np.random.default_rng([number, run]) for number in numbers]
    with ProcessPoolExecutor() as processes:
        found = processes.map(rates, chosen, repeat(studies), randoms)
        return pd.DataFrame([vars(kind) | own for kind, own in zip(chosen, found, strict=True)])


def _share(latent: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-latent))
