"""What the report's tables are made of, written by hand: values a query of a few models, and what naive code makes of them."""

from collections.abc import Callable, Iterable, Mapping
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import bgbias
from bgbias import seeds
from bgbias.evaluation.metrics import MATCHED, MATCHED_OTHERS, OF_DONOR, OTHERS
from bgbias.evaluation.settings import Attacked

SEEDS, DRAWS, QUERIES = (0, 1, 2), 2, 48
LABELS = np.arange(QUERIES) % 8
IDS = [f"{number:02}.jpg" for number in range(QUERIES)]
MODEL = {"dataset": "toy", "backbone": "tiny", "loss": "contrastive"}
CLEAN, CORRUPTED = ("symmetric", "clean"), ("symmetric", "random_background")
QUERY = ("query", "random_background")
VIEWS = {CLEAN: 0.7, CORRUPTED: 0.3, QUERY: 0.4}
STUDY: Any = SimpleNamespace(
    train=SimpleNamespace(selection="clean"),
    evaluation=SimpleNamespace(draws=DRAWS),
    attribution=SimpleNamespace(images=None),
    probes=SimpleNamespace(folds=5),
    attacked=Attacked(attacks=("stax", "mtax:5"), epsilon=(0.01,)),
)


def noise(*key: object) -> np.ndarray:
    """Small numbers, one a query, that belong to this key alone; those of classes differ."""
    made: np.ndarray = 0.01 * LABELS + seeds.generator("tables", *key).normal(0, 0.02, QUERIES)
    return made


def frame(*of: Mapping[str, object], **columns: object) -> pd.DataFrame:
    """A row a query: what all have alike, and columns with a value each."""
    alike = {key: value for part in of for key, value in part.items()}
    return pd.DataFrame({**alike, "image_id": IDS, "label": LABELS, **columns})


def runs(models: Iterable[str], of_seeds: Iterable[object] = SEEDS) -> list[dict[str, Any]]:
    """The names of trainings; whatever was pretrained elsewhere has one seed, and no loss."""
    every = [MODEL | {"method": model, "seed": seed} for model, seed in product(models, of_seeds)]
    first = next(iter(of_seeds))
    return [
        run | ({"loss": "none"} if run["method"] == "pretrained" else {})
        for run in every
        if run["method"] != "pretrained" or run["seed"] == first
    ]


def queries(
    methods: Mapping[str, float],
    views: Mapping[tuple[str, str], float] = VIEWS,
    of_seeds: Iterable[object] = SEEDS,
    draws: int = DRAWS,
    **more: object,
) -> pd.DataFrame:
    """queries.parquet of methods that find so large a share of a view's level, MAP@R 0..1."""
    parts = []
    for run, ((setting, condition), level) in product(runs(methods, of_seeds), views.items()):
        for draw in range(draws if condition in DRAWN else 1):
            key = (run["method"], run["seed"], setting, condition, draw, *more.values())
            values = level * methods[run["method"]] + noise(*key)
            chance = seeds.generator("hits", *key).random((2, QUERIES))
            columns = {
                "map_at_r": values,
                "precision_at_1": (chance[0] < values).astype(float),
                "recall_at_4": np.minimum(1, values + 0.2),
                OF_DONOR: (chance[1] < 0.3).astype(float),
                **dict.fromkeys(MATCHED.values(), values),
                **dict.fromkeys((*MATCHED_OTHERS.values(), OTHERS), 0.0),
            }
            where = {"setting": setting, "condition": condition, "draw": draw}
            parts.append(frame(run, where, more, **columns))
    # Rows come in any order.
    return pd.concat(parts, ignore_index=True).sample(frac=1, random_state=0)


DRAWN = ("random_background", "mixed_same", "mixed_rand", "moved", "scaled")


def results(of_queries: pd.DataFrame) -> pd.DataFrame:
    """results.csv: means over queries."""
    metrics = ["map_at_r", "precision_at_1"]
    keys = [*MODEL, "method", "seed", "setting", "condition", "draw"]
    tidy = of_queries.melt(keys, metrics, var_name="metric").groupby([*keys, "metric"], sort=False)["value"]
    return tidy.agg(value="mean", n="count").reset_index()


def drops(numbers: Mapping[str, float], of_seeds: Iterable[object] = SEEDS) -> pd.DataFrame:
    """The relative drop of each training, which rises with the method's number and the seed."""
    rows = pd.DataFrame(runs(numbers, of_seeds))
    return rows.assign(relative_drop=rows["method"].map(numbers) + 0.01 * rows.index)


def wide(values: pd.DataFrame, column: str = "map_at_r", **where: object) -> np.ndarray:
    """A column of the rows that have these values, naively: [S, N], draws averaged."""
    own = values[(values[list(where)] == list(where.values())).all(axis=1)]
    by_query = own.groupby(["seed", "image_id"])[column].mean().unstack()
    return by_query[IDS].to_numpy()


def check(
    row: Mapping[str, Any] | pd.Series,
    name: str,
    parts: list[np.ndarray],
    of: Callable[..., Any] = lambda mean: mean,
    scale: float = 100,
) -> None:
    """A row's number, its interval and, if it is tested, its p are those that ``bgbias.estimate`` gives of the values."""
    found = bgbias.estimate(parts, LABELS, of)
    ends = [row[f"{name}{end}"] for end in ("", "_low", "_high")]
    assert ends == pytest.approx([scale * found.value, scale * found.low, scale * found.high]), name
    if f"{name}_p" in row:
        assert row[f"{name}_p"] == pytest.approx(found.p), name


def less(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return one - other
