"""Values a query of models that find about so much, for tests of what compares them."""

import numpy as np
import pandas as pd

from bgbias import seeds
from bgbias.evaluation.metrics import OTHERS

CLASSES, DRAWS = 12, 4
SIZES = [3 + number % 5 for number in range(CLASSES)]
LABELS = np.repeat(np.arange(CLASSES), SIZES)
IDS = [f"{row:03}.jpg" for row in range(len(LABELS))]
# Where a class finds more, all models find more of it.
EASE = seeds.generator("ease").normal(0, 0.08, CLASSES)[LABELS]


def model(clean: float, changed: float, noise: float = 0.02, key: int = 0) -> pd.DataFrame:
    """Rows of a model whose queries find about so much, as they are and elsewhere."""
    generator = seeds.generator("model", clean, changed, key)

    def rows(setting: str, condition: str, draw: int, level: float) -> pd.DataFrame:
        values = np.clip(level + EASE + generator.normal(0, noise, len(LABELS)), 0, 1)
        named = {"seed": 0, "setting": setting, "condition": condition, "draw": draw}
        return pd.DataFrame(
            {**named, "image_id": IDS, "label": LABELS, "map_at_r": values, OTHERS: np.zeros(len(LABELS))}
        )

    own = [rows("symmetric", "clean", 0, clean)]
    own += [rows("query", "random_background", draw, changed) for draw in range(DRAWS)]
    return pd.concat(own, ignore_index=True)
