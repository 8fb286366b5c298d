"""Where photos were taken, and which other place each one is compared with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from bgbias import seeds

NOWHERE = -1
PLACE = "place"
DRAWS = 20  # others that are drawn of each photo; those of later draws are the same again


@dataclass(frozen=True)
class Places:
    """``own`` int64 [N]: the number of the place where each photo was taken. ``drawn`` int64 [D, N]: for each of D draws another
    place where the photo's class was seen, too. -1 where there is none.
    """

    own: np.ndarray
    drawn: np.ndarray

    @classmethod
    def of(cls, names: Sequence[str], labels: np.ndarray, keys: Sequence[tuple[str, str]]) -> Self | None:
        """From places' names [N], empty where unknown, and photos' labels and keys [N]; None if no class was seen in two."""
        numbers = {name: number for number, name in enumerate(sorted(set(names) - {""}))}
        numbers_of = np.array([numbers.get(name, NOWHERE) for name in names], np.int64)
        places_of = {label: set(numbers_of[labels == label]) - {NOWHERE} for label in np.unique(labels)}
        drawn = np.full((DRAWS, len(numbers_of)), NOWHERE, np.int64)
        for row, (label, place) in enumerate(zip(labels, numbers_of, strict=True)):
            others = sorted(places_of[label] - {place}) if place != NOWHERE else []
            for draw in range(DRAWS if others else 0):
                number = seeds.number(seeds.key("another place", draw, *keys[row]))
                drawn[draw, row] = others[number % len(others)]
        return cls(numbers_of, drawn) if (drawn != NOWHERE).any() else None

    def other(self, draw: int) -> np.ndarray:
        """The other place of each photo in this draw, int64 [N]."""
        others: np.ndarray = self.drawn[draw % DRAWS]
        return others


def weights(classes: np.ndarray, places: np.ndarray) -> np.ndarray:
    """How much each of N photos counts, all places of its class alike and a class as much as it has photos: float64 [N]."""
    import pandas as pd  # planning does without

    photos = pd.DataFrame({"class": classes, "place": places})
    of_class = photos.groupby("class")["place"]
    at_place = photos.groupby(["class", "place"])["place"].transform("size")
    return (of_class.transform("size") / (of_class.transform("nunique") * at_place)).to_numpy(np.float64)
