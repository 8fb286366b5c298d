"""Whether a picture's vector depends on the pictures that go through a model with it: what embeds so compares nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from bgbias.errors import UserError

SAME = 0.02  # of a vector's largest number, by which rounding in another batch moves it at most


class AloneCheck:
    """Embeds pictures of a batch again, each alone, and refuses a model that gives one of them another vector.

    Three pictures of the first batch of each size are tried, and of the second, fourth, eighth, ... of that size: at the sizes
    at which the model works, and late as well.
    """

    def __init__(self) -> None:
        self._batches: Counter[int] = Counter()

    def __call__(
        self,
        name: str,
        pictures: Sequence[np.ndarray] | np.ndarray,
        vectors: np.ndarray,
        embed: Callable[..., np.ndarray],
    ) -> None:
        """``vectors`` float32 [N, D] are those of the N ``pictures`` together; ``embed`` gives [1, D] of a list of one."""
        count = len(pictures)
        self._batches[count] += 1
        is_power_of_two = self._batches[count].bit_count() == 1
        for row in sorted({0, count // 2, count - 1}) if count > 1 and is_power_of_two else ():
            alone = embed(pictures[row : row + 1])[0]
            if np.abs(alone - vectors[row]).max() > SAME * np.abs(alone).max():
                raise UserError(
                    f"{name} gives picture {row + 1} of {count} another vector among the others than alone. Put a network into"
                    " evaluation mode (model.eval()); export a graph again, for any number of pictures at once or for one."
                )
