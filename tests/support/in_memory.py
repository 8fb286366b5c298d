"""Test photos that need no files."""

from __future__ import annotations

import numpy as np
import pandas as pd

from bgbias.photos.table import COLUMNS, ImageTable


class Pictures:
    """A gallery in memory."""

    def __init__(self, pictures: dict[str, np.ndarray]) -> None:
        self.pictures = pictures

    def __contains__(self, image_id: str) -> bool:
        return image_id in self.pictures

    def get(self, image_id: str) -> np.ndarray:
        return self.pictures[image_id]


def table(labels: dict[str, int]) -> ImageTable:
    """The test split of a dataset: photos by name, each with the number of its class."""
    rows = [(i, label, f"class {label}", "test", "toy|test", i) for i, label in labels.items()]
    return ImageTable(pd.DataFrame(rows, columns=list(COLUMNS)))
