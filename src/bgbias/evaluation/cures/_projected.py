"""Directions in which backgrounds move embeddings are projected out (``evaluation.erasure``)."""

from collections.abc import Callable

import numpy as np

from bgbias.evaluation import erasure
from bgbias.evaluation.erasure import Erasure

INDEX = "mapped"
FITTED = True


def leace(crossed: np.ndarray, judge: Callable[[Erasure], float]) -> Erasure:
    """What tells backgrounds apart linearly is projected out (``erasure.least_squares``); nothing is chosen."""
    return erasure.least_squares(crossed)


def moved_directions(crossed: np.ndarray, judge: Callable[[Erasure], float]) -> Erasure:
    """``erasure.largest_within`` of 0, 1, 2, 4, 8, ... directions, up to half of all: the fewest that ``judge`` finds best."""
    counts = [0, *(2**power for power in range(crossed.shape[2].bit_length() - 1))]
    candidates = [erasure.largest_within(crossed, count) for count in counts]
    judged = [judge(candidate) for candidate in candidates]
    return candidates[int(np.argmax(judged))]


MEMBERS = {
    "leace": {"TITLE": "LEACE of backgrounds", "fit": leace},
    "moved_directions": {"TITLE": "moved directions removed", "fit": moved_directions},
}
