"""Queries of models that saw the steps of the drop: what Tables 5 and 10 are made of."""

from __future__ import annotations

import numpy as np
import pandas as pd

from bgbias.evaluation.metrics import MATCHED, MATCHED_OTHERS, OTHERS

SEEDS, DRAWS, QUERIES = (0, 1, 2), 2, 48
LABELS = np.arange(QUERIES) % 8
LEVELS = {
    "clean": 0.8,
    "own_inpainted": 0.78,
    "mixed_same": 0.6,
    "random_background": 0.3,
    "mixed_rand": 0.25,
    "only_fg": 0.4,
    "moved": 0.7,
    "scaled": 0.75,
}
SHOWN = tuple(LEVELS)
DRAWN = ("mixed_same", "mixed_rand", "random_background", "moved", "scaled")


def queries(seeds: tuple[int, ...] = SEEDS, shown: tuple[str, ...] = SHOWN) -> pd.DataFrame:
    """Values a query that differ by seed, draw, class and photo."""
    tables = []
    for method, kept in (("plain", 1.0), ("bgaugment", 0.9)):
        for seed in seeds:
            for condition in shown:
                for draw in range(DRAWS if condition in DRAWN else 1):
                    for setting in ("symmetric", "query"):
                        if condition == "clean" and setting == "query":
                            continue
                        random = np.random.default_rng(
                            [seed, draw, SHOWN.index(condition), setting == "query", kept < 1]
                        )
                        values = LEVELS[condition] * kept * (0.8 + 0.05 * LABELS) + random.normal(
                            0, 0.02, QUERIES
                        )
                        where = {"setting": setting, "condition": condition, "draw": draw}
                        cell = {
                            "dataset": "toy",
                            "backbone": "tiny",
                            "loss": "contrastive",
                            "method": method,
                            "seed": seed,
                        }
                        rows = {
                            "image_id": [f"{n}.jpg" for n in range(QUERIES)],
                            "label": LABELS,
                            "map_at_r": values,
                            "precision_at_1": (random.random(QUERIES) < values).astype(float),
                            "nearest_of_donor": (random.random(QUERIES) < 0.3).astype(float),
                        }
                        for both in MATCHED if condition == "clean" else (setting,):
                            rows |= {MATCHED[both]: values, MATCHED_OTHERS[both]: 0.0}
                        tables.append(pd.DataFrame({**cell, **where, **rows, OTHERS: 0.0}))
    return pd.concat(tables, ignore_index=True)


def naive(
    values: pd.DataFrame, method: str, condition: str, setting: str = "symmetric", of: str = "map_at_r"
) -> np.ndarray:
    """Values [S, N], draws averaged."""
    own = values[
        (values["method"] == method) & (values["condition"] == condition) & (values["setting"] == setting)
    ]
    wide = own.groupby(["seed", "image_id"])[of].mean().unstack()
    return wide[[f"{n}.jpg" for n in range(QUERIES)]].to_numpy()
