"""Table 5: its steps add up to the drop, and are what they are called."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

import bgbias
from bgbias.errors import UserError
from bgbias.evaluation.metrics import OTHERS
from bgbias.report import formats
from bgbias.report.tables import decomposition
from bgbias.report.tables.decomposition import PATH, STEPS

SEEDS, DRAWS, QUERIES = (0, 1, 2), 2, 48
LABELS = np.arange(QUERIES) % 8
LEVELS = {
    "clean": 0.8,
    "own_inpainted": 0.78,
    "mixed_same": 0.6,
    "random_background": 0.3,
    "mixed_rand": 0.25,
    "only_fg": 0.4,
}
SHOWN = tuple(LEVELS)
DRAWN = ("mixed_same", "mixed_rand", "random_background")


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


def test_steps_add_up_to_the_drop_and_are_differences_of_levels() -> None:
    values = queries()
    table = decomposition.table(values, SHOWN, DRAWS).set_index("method")
    for method, row in table.iterrows():
        assert sum(row[step] for step in STEPS) == pytest.approx(row["drop"], abs=1e-9)
        for step, (before, after) in zip(STEPS, pairwise(PATH), strict=True):
            parts = [naive(values, str(method), name) for name in (before, after)]
            assert row[step] == pytest.approx(100 * (parts[0] - parts[1]).mean())
            expected = bgbias.estimate(parts, LABELS, lambda before, after: before - after)
            ends = [row[f"{step}_{end}"] for end in ("low", "high")]
            assert ends == pytest.approx([100 * expected.low, 100 * expected.high])
        gap = naive(values, str(method), "mixed_same", "query") - naive(
            values, str(method), "mixed_rand", "query"
        )
        assert row["gap"] == pytest.approx(100 * gap.mean())
        followed, right = (
            naive(values, str(method), "mixed_rand", "query", of)
            for of in ("nearest_of_donor", "precision_at_1")
        )
        assert row["cue_conflict"] == pytest.approx(100 * followed.sum() / (followed + right).sum())
        assert row["cue_conflict_low"] < row["cue_conflict"] < row["cue_conflict_high"]
        assert row["only_fg"] == pytest.approx(100 * naive(values, str(method), "only_fg").mean())
    assert table["classes"].tolist() == [8, 8]


def test_what_a_grid_does_not_show_is_left_out() -> None:
    table = decomposition.table(queries(shown=PATH), PATH, DRAWS)
    assert not {"gap", "only_fg", "no_fg", "only_bg"} & set(table)
    printed = formats.markdown(table, "table5", decomposition.told(table, "clean", {}))
    assert "Class's backgrounds" in printed
    assert "Object alone" not in printed
    whole = decomposition.table(queries(), SHOWN, DRAWS)
    assert "Object alone" in formats.markdown(whole, "table5", decomposition.told(whole, "clean", {}))


def test_models_of_one_seed_are_called_so() -> None:
    table = decomposition.table(queries(seeds=(0,)), SHOWN, DRAWS)
    first = decomposition.told(table, "clean", {}).partition(".")[0]
    assert "one training seed, which speaks of these models and not of the methods" in first


def test_a_missing_draw_is_told() -> None:
    values = queries()
    lacking = values[~((values["condition"] == "mixed_same") & (values["draw"] == 1) & (values["seed"] == 2))]
    with pytest.raises(UserError, match="toy/tiny/contrastive/plain lacks values a query for mixed_same"):
        decomposition.table(lacking, SHOWN, DRAWS)


def test_chance_is_the_mean_over_random_orders() -> None:
    labels = np.array([0] * 3 + [1] * 5 + [2] * 2 + [3])
    told = decomposition.by_chance(labels)
    random = np.random.default_rng(0)
    for label in (0, 1, 2):
        own = int((labels == label).sum()) - 1
        others = np.array([True] * own + [False] * (len(labels) - 1 - own))
        tried = []
        for _ in range(4000):
            hits = random.permutation(others)[:own]
            tried.append((hits.cumsum() / np.arange(1, own + 1) * hits).sum() / own)
        assert told[label] == pytest.approx(np.mean(tried), abs=4 * np.std(tried) / 4000**0.5)
    assert np.isnan(told[3])
    table = decomposition.table(
        queries(), SHOWN, DRAWS, chance={"toy": dict.fromkeys(range(8), 0.05) | {7: 0.13}}
    )
    assert table["chance"].tolist() == pytest.approx([6.0, 6.0])
