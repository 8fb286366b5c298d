"""What intervals hold where the levels of classes are not bell-shaped: most classes easy and few hard, or half of each.

Of one model. A class's level follows a beta law, and of ten photos that each query has to find it finds a binomial number; in
front of other backgrounds each is kept with a probability that is the class's own as well.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd

import bgbias
from bgbias.results.uncertainty import SIGNIFICANT, difference, relative_drop

STUDIES, CLASSES, QUERIES, FOUND = 2000, (5, 10, 25, 100), 20, 10
# The parameters a and b of a beta law, whose mean is a / (a + b); the intraclass correlation of queries is 10 / (a + b + 10).
LAWS = {
    "one hump": (5.0, 5.0),
    "half of them easy, half hard": (0.5, 0.5),
    "most easy, few hard": (0.8, 0.2),
}
KEPT = (4.0, 2.0)


def rates(law: str, number: int, random: np.random.Generator) -> dict[str, float]:
    """How often the intervals of a mean and of a relative drop hold the truth, and how often two models that do not differ get a
    star.
    """
    a, b = LAWS[law]
    level, drop = a / (a + b), 1 - KEPT[0] / sum(KEPT)
    classes = np.repeat(np.arange(number), QUERIES)
    counts = np.zeros(3)
    for _ in range(STUDIES):
        easy, kept = random.beta(a, b, number)[classes], random.beta(*KEPT, number)[classes]
        found = [random.binomial(FOUND, easy) for _ in range(2)]
        left = random.binomial(found[0], kept)
        mean = bgbias.estimate([found[0] / FOUND], classes)
        lost = bgbias.estimate([found[0], left], classes, relative_drop)
        apart = bgbias.estimate(found, classes, difference)
        counts += [mean.low <= level <= mean.high, lost.low <= drop <= lost.high, apart.p < SIGNIFICANT]
    names = ("mean covered", "drop covered", "difference starred")
    return dict(zip(names, (counts / STUDIES).tolist(), strict=True))


def table() -> pd.DataFrame:
    """A row a law and number of classes."""
    return pd.DataFrame(
        [
            {"law": law, "classes": number, **rates(law, number, np.random.default_rng(seed))}
            for seed, (law, number) in enumerate(product(LAWS, CLASSES))
        ]
    )
