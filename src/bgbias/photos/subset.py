"""Some photos of a table, the same ones for every model: they are drawn by names alone."""

import numpy as np

from bgbias import seeds
from bgbias.photos.table import ImageTable


def keyed(table: ImageTable, purpose: str, count: int | None) -> ImageTable:
    """The first ``count`` photos (all if None) in the order of the numbers of "<purpose>|<key_set>|<key_item>"."""
    numbers = [seeds.number(seeds.key(purpose, *key)) for key in table.keys]
    chosen = np.argsort(np.array(numbers, dtype=np.uint64), kind="stable")[:count]
    return ImageTable(table.frame.iloc[chosen].reset_index(drop=True))
