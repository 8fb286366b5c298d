"""Queries in thirds by what is measured of them: of their masks, or of what a photo shows."""

import numpy as np
import pandas as pd

FEWEST = 30  # queries of which thirds say something


def in_thirds(values: pd.Series) -> np.ndarray | None:
    """The third [N] of each value, 0 the lowest; None of fewer than ``FEWEST`` values, or where too few differ.

    Equal values stay together: queries are in the order of their classes, which would part them.
    """
    if len(values) < FEWEST:
        return None
    third = pd.qcut(values, 3, labels=False, duplicates="drop").to_numpy()
    return third if set(third) == {0, 1, 2} else None
