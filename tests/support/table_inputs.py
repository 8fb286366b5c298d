"""What the report's tables are made of, written by hand: values a query of a few models, and what naive code makes of them."""

from __future__ import annotations

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


# -- results of models written by hand -----------------------------------------------------------------------------------

# Two values make six queries, each of a class of its own: the first of a, c and e, the second of b, d and f.
IMAGES = [f"{name}.jpg" for name in "abcdef"]
# MAP@R. Means: clean .5 and .6; corrupted .3 .4 for seed 0, .2 .5 for seed 1.
PLAIN = {
    0: {"clean": [[0.4, 0.6]], "corrupted": [[0.2, 0.4], [0.3, 0.5]]},
    1: {"clean": [[0.5, 0.7]], "corrupted": [[0.2, 0.2], [0.4, 0.6]]},
}
# Every query loses a tenth.
CURED = {seed: {"clean": [[0.4, 0.6]], "corrupted": [[0.36, 0.54]] * 2} for seed in (0, 1)}


def study(
    models: dict[tuple[str, str], dict] | None = None, dataset: str = "sop", backbone: str = "bn_inception"
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """results.csv and queries.parquet of hand-made models: six queries, two seeds, two draws."""
    models = models or {("contrastive", "plain"): PLAIN, ("contrastive", "bgaugment"): CURED}
    parts = []
    for (loss, method), of_seeds in models.items():
        for seed, values in of_seeds.items():
            name = {"dataset": dataset, "backbone": backbone, "loss": loss, "method": method, "seed": seed}
            views = [("symmetric", "clean", 0, values["clean"][0])]
            for draw, corrupted in enumerate(values["corrupted"]):
                views.append(("symmetric", "random_background", draw, corrupted))
                views.append(("query", "random_background", draw, [0.44, 0.44]))
            for setting, condition, draw, scores in views:
                where = {"setting": setting, "condition": condition, "draw": draw, "image_id": IMAGES}
                found = {"label": range(6), "map_at_r": scores * 3, "precision_at_1": 1.0, OTHERS: 0.0}
                parts.append(pd.DataFrame(name | where | found))
    values_a_query = pd.concat(parts, ignore_index=True)
    return results(values_a_query), values_a_query


def attribution(
    scores: dict[tuple[str, int], list[float]], further: dict[str, float] | None = None
) -> pd.DataFrame:
    """Attribution scores by (method, seed), one an image, each of a class of its own; NaN for an image that was skipped. Each
    variant is shifted, those of ``further`` too.
    """
    rows = [
        (method, seed, f"{number}.jpg", number, variant, value + shift)
        for (method, seed), values in scores.items()
        for variant, shift in ({"ref": 0.0, "robust": 0.1} | (further or {})).items()
        for number, value in enumerate(values)
    ]
    made = pd.DataFrame(rows, columns=["method", "seed", "image_id", "label", "variant", "score"])
    skipped = made["score"].isna().map({True: "empty mask", False: ""})
    return made.assign(dataset="cub200", backbone="bn_inception", loss="triplet", skipped=skipped)
