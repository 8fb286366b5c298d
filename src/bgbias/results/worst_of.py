"""The worst of several tries, expected over which of them are made: after the backgrounds challenge (Xiao et al. 2021), which
asks for the background that misleads a model most.
"""

from __future__ import annotations

import math

import numpy as np


def expected(values: np.ndarray, tries: int) -> np.ndarray:
    """The mean of the lowest value among ``tries`` of the last axis, over all ways to choose them: [..., m] to [...].

    With values in rising order v_1..v_m it is the sum of v_i C(m - i, k - 1) / C(m, k). NaN where a value is. Raises ValueError
    for tries outside 1..m.
    """
    m = values.shape[-1]
    if not 1 <= tries <= m:
        raise ValueError(f"the worst of {tries} of {m} values")
    ways = [math.comb(m - i, tries - 1) / math.comb(m, tries) for i in range(1, m + 1)]
    worst: np.ndarray = np.sort(values, axis=-1) @ np.array(ways)
    return worst
