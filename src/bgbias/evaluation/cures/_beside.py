"""The embedding of a picture together with that of a second one, made of it: a weighted sum, whose weight is fitted."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

TENTHS = tuple(n / 10 for n in range(11))


@dataclass(frozen=True)
class Joined:
    """``of_picture`` times the embeddings of pictures plus ``of_second`` times those of second ones, at unit length again.

    With ``of_second`` 0 it is the embeddings of pictures, bit for bit.
    """

    of_picture: float
    of_second: float

    @property
    def weight(self) -> float:
        """How much of second pictures' embeddings is added or subtracted."""
        return abs(self.of_second)

    def __call__(self, pictures: np.ndarray, seconds: np.ndarray) -> np.ndarray:
        """Unit vectors [n, d] in the type of ``pictures`` [n, d]; ``seconds`` [n, d]."""
        if self.of_second == 0:
            return pictures
        joined = self.of_picture * pictures + self.of_second * seconds
        return (joined / np.linalg.norm(joined, axis=1, keepdims=True)).astype(pictures.dtype)


def best(candidates: Iterable[Joined], judge: Callable[[Joined], float]) -> Joined:
    """The candidate that ``judge`` finds best, the first of several."""
    return max(candidates, key=judge)
