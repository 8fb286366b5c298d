"""Table 6: the worst of several backgrounds, shares, and whether these tell the drop."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from caption_studies import selected

import bgbias
from bgbias.errors import UserError
from bgbias.report import formats
from bgbias.report.figures._panels import figure_worst_of
from bgbias.report.tables import crossing

SEEDS, OBJECTS, BACKGROUNDS = (0, 1, 2), 24, 6
LABELS = np.arange(OBJECTS) % 6
METHODS = {"plain": 0.5, "bgaugment": 0.8, "attr_frac": 0.6, "sam_siamese": 0.4}


def cell(method: str, seed: int) -> dict[str, object]:
    return {"dataset": "toy", "backbone": "tiny", "loss": "contrastive", "method": method, "seed": seed}


def values(method: str, seed: int) -> np.ndarray:
    random = np.random.default_rng([seed, list(METHODS).index(method)])
    noisy = METHODS[method] + 0.03 * LABELS[:, None] + random.normal(0, 0.1, (OBJECTS, BACKGROUNDS))
    return np.clip(noisy, 0, 1)


def queries() -> pd.DataFrame:
    tables = []
    for method in METHODS:
        for seed in SEEDS:
            of = {
                "image_id": np.repeat([f"{n:02}.jpg" for n in range(OBJECTS)], BACKGROUNDS),
                "label": np.repeat(LABELS, BACKGROUNDS),
                "background": np.tile([4, 0, 9, 3, 1, 2], OBJECTS),
                "map_at_r": values(method, seed).ravel(),
                "cosine": 1 - values(method, seed).ravel() / 2,
            }
            tables.append(pd.DataFrame({**cell(method, seed), **of}))
    # Rows come in any order.
    return pd.concat(tables, ignore_index=True).sample(frac=1, random_state=0)


def shares(negative: str = "") -> pd.DataFrame:
    rows = [
        cell(m, s)
        | {"object": 0.9 - 0.1 * n - 0.01 * s, "background": 0.05 * n + 0.02 * s, "interaction": 0.1}
        for n, m in enumerate(METHODS)
        for s in SEEDS
    ]
    return pd.DataFrame(rows).assign(negative=[negative] + [""] * (len(rows) - 1))


def levels() -> pd.DataFrame:
    """The drop grows with what is not the object's."""
    return shares().assign(relative_drop=lambda t: 10 - 9 * t["object"])[[*cell("", 0), "relative_drop"]]


def test_the_worst_of_some_backgrounds_is_the_mean_over_choices_with_its_interval() -> None:
    table = crossing.table(queries(), shares(), levels()).set_index("method")
    assert {"worst_1", "worst_5", "worst_all"} <= set(table)
    assert "worst_20" not in table
    for method, row in table.iterrows():
        for name, k in (("worst_1", 1), ("worst_5", 5), ("worst_all", 6)):
            naive = np.array(
                [
                    [np.mean([min(c) for c in combinations(query, k)]) for query in values(str(method), seed)]
                    for seed in SEEDS
                ]
            )
            assert row[name] == pytest.approx(100 * naive.mean())
            expected = bgbias.estimate([naive], LABELS)
            ends = [row[f"{name}_{end}"] for end in ("low", "high")]
            assert ends == pytest.approx([100 * expected.low, 100 * expected.high])
        n = list(METHODS).index(str(method))
        assert row["object"] == pytest.approx(90 - 10 * n - 1)
        assert row["background_sd_seeds"] == pytest.approx(2)
        assert (row["objects"], row["classes"], row["backgrounds"]) == (OBJECTS, 6, BACKGROUNDS)


def test_shares_are_compared_with_drops_over_all_trainings() -> None:
    table = crossing.table(queries(), shares(), levels())
    assert table["rho_models"].tolist() == [12] * 4
    assert table["rho"].tolist() == [1.0] * 4
    assert "rho 1.00, 12 models in 4 rows" in crossing.caption(selected(), table, {})
    few = crossing.table(queries(), shares(), levels().head(9))
    assert few["rho"].isna().all()
    assert "unknown, of 9 models" in crossing.caption(selected(), few, {})


def test_components_below_0_are_told() -> None:
    told = crossing.caption(selected(), crossing.table(queries(), shares("background"), levels()), {})
    assert "Estimates below 0, of 1 trainings, count as 0." in told
    assert "below 0" not in crossing.caption(selected(), crossing.table(queries(), shares(), levels()), {})


def test_it_is_printed_and_drawn() -> None:
    table = crossing.table(queries(), shares(), levels())
    printed = formats.markdown(table, "table6", crossing.caption(selected(), table, {}))
    assert "Worst of 5" in printed
    assert "Worst of 20" not in printed
    axes = figure_worst_of(table).axes[0]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["1", "5", "6"]
    drawn = {tuple(line.get_ydata()) for line in axes.lines}
    for row in table.to_dict("records"):
        assert (row["worst_1"], row["worst_5"], row["worst_all"]) in drawn


def test_a_missing_query_is_told() -> None:
    whole = queries()
    lacking = whole[~((whole["seed"] == 2) & (whole["image_id"] == "03.jpg"))]
    with pytest.raises(UserError, match="toy/tiny/contrastive/plain lacks values a query for worst_1"):
        crossing.table(lacking, shares(), levels())
