"""How cost grows with size: the power p of c + a n^p."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def exponents(
    sizes: Sequence[int] | np.ndarray, rounds: Sequence[Sequence[float]] | np.ndarray
) -> list[float]:
    """One exponent a round, of the times (seconds) at sizes that double: the slope of log differences over log sizes.

    t(2n) - t(n) is a (2^p - 1) n^p, whatever the constant cost c. NaN where a larger size took less time.
    """
    sizes, times = np.asarray(sizes, float), np.asarray(rounds, float)
    if not np.allclose(sizes[1:] / sizes[:-1], 2):
        raise ValueError(f"sizes must double: {sizes}")
    grown = np.diff(times, axis=1)
    logs = np.log(np.where(grown > 0, grown, np.nan))
    return [float(np.polyfit(np.log(sizes[:-1]), row, 1)[0]) for row in logs]
