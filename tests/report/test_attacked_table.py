"""Table 9: each model under each attack, with intervals of ``bgbias.estimate``, beside what a paper has."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from caption_studies import selected
from small_study import described, load

import bgbias
from bgbias.errors import UserError
from bgbias.evaluation.metrics import OTHERS
from bgbias.evaluation.settings import Attacked
from bgbias.report import costs, formats
from bgbias.report.tables import attacked
from bgbias.results import published

SEEDS, QUERIES, DRAWS = (0, 1, 2), 48, 2
LABELS = np.arange(QUERIES) % 8
METHODS = {"plain": 0.0, "mdprop_2": 0.2}
# How views are ranked, and about how good a model is there.
CLEAN, RANDOM = {"symmetric": 0.7}, {"symmetric": 0.3, "query": 0.4}
ATTACKS = {"stax@0.01": {"symmetric": 0.3, "query": 0.2}, "mtax:5@0.01": {"symmetric": 0.4, "query": 0.1}}
COSTS = {
    f"cub200/resnet50/roth_multi_similarity/{m}": cost for m, cost in (("plain", 1.0), ("mdprop_2", 5.2))
}
ASKED = Attacked(attacks=("stax", "mtax:5"), epsilon=(0.01,))


def cell(method: str, seed: int) -> dict[str, object]:
    return {
        "dataset": "cub200",
        "backbone": "resnet50",
        "loss": "roth_multi_similarity",
        "method": method,
        "seed": seed,
    }


def values(method: str, seed: int, level: float, draw: int, metric: int) -> np.ndarray:
    random = np.random.default_rng([seed, list(METHODS).index(method), draw, metric, round(100 * level)])
    return level + METHODS[method] * (level < 0.7) + 0.01 * LABELS + random.normal(0, 0.02, QUERIES)


def rows(view: dict[str, float], draws: int = 1, **told: str) -> pd.DataFrame:
    """A view's queries of all models."""
    tables = []
    for method in METHODS:
        for seed in SEEDS:
            for setting, level in view.items():
                for draw in range(draws):
                    of = {"image_id": [f"{n:02}.jpg" for n in range(QUERIES)], "label": LABELS, OTHERS: 0.0}
                    named = ("map_at_r", "precision_at_1", "recall_at_4")
                    found = {m: values(method, seed, level, draw, n) for n, m in enumerate(named)}
                    where = {"setting": setting, "condition": "clean", "draw": draw}
                    tables.append(pd.DataFrame({**cell(method, seed), **where, **told, **of, **found}))
    return pd.concat(tables, ignore_index=True)


def tables() -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    before = pd.concat([rows(CLEAN), rows(RANDOM, DRAWS, condition="random_background")])
    under = pd.concat(
        [rows(view, attack=name).sample(frac=1, random_state=0) for name, view in ATTACKS.items()]
    )
    views = [
        ("clean", 0),
        *(("random_background", d) for d in range(DRAWS)),
        *((name, 0) for name in ATTACKS),
    ]
    metrics = [
        cell(m, s) | {"view": view, "draw": draw, "nmi": 0.5 + 0.1 * s + 0.2 * draw, "pi_ratio": 1.0 + s}
        for m in METHODS
        for s in SEEDS
        for view, draw in views
    ]
    return before, under, pd.DataFrame(metrics)


def test_every_view_has_its_row_with_intervals_over_classes_and_seeds() -> None:
    table = attacked.table(*tables(), COSTS)
    shown = ("", "+random_background", "+stax@0.01", "+mtax:5@0.01")
    assert table["method"].tolist() == [method + view for method in METHODS for view in shown]
    by_name = table.set_index("method")
    for method in METHODS:
        for name, view in {
            "": CLEAN,
            "+random_background": RANDOM,
            **{f"+{a}": v for a, v in ATTACKS.items()},
        }.items():
            row, draws = by_name.loc[method + name], range(DRAWS if name == "+random_background" else 1)
            for setting, prefix in (("symmetric", ""), ("query", "query_")):
                for number, column in enumerate(("map_at_r", "p_at_1")):
                    if setting not in view:
                        assert np.isnan(row[prefix + column])
                        continue
                    drawn = [
                        np.mean([values(method, s, view[setting], d, number) for d in draws], axis=0)
                        for s in SEEDS
                    ]
                    estimate = bgbias.estimate([np.array(drawn)], LABELS)
                    ends = [row[f"{prefix}{column}{end}"] for end in ("", "_low", "_high")]
                    told = [100 * value for value in (estimate.value, estimate.low, estimate.high)]
                    assert ends == pytest.approx([told[0], *np.clip(told[1:], 0, 100)])
            recall = [values(method, s, view["symmetric"], d, 2).mean() for s in SEEDS for d in draws]
            assert row["recall_at_4"] == pytest.approx(100 * np.mean(recall))
            assert row["nmi"] == pytest.approx(60 + 10 * (len(draws) - 1))
            assert row["nmi_sd_seeds"] == pytest.approx(10)
            assert (row["pi_ratio"], row["pi_ratio_sd_seeds"]) == pytest.approx((2.0, 1.0))
        assert by_name.loc[method, "cost"] == COSTS[f"cub200/resnet50/roth_multi_similarity/{method}"]
        assert by_name["cost"].filter(like=f"{method}+").isna().all()
    # MDProp minus plain, of the same photos changed alike; corrected for one method, which is not at all.
    differences = by_name.loc[[f"mdprop_2{view}" for view in shown]]
    for prefix, setting in (("", "symmetric"), ("query_", "query")):
        plain, mdprop = (
            np.array([values(method, seed, ATTACKS["stax@0.01"][setting], 0, 0) for seed in SEEDS])
            for method in METHODS
        )
        estimate = bgbias.estimate([mdprop - plain], LABELS)
        row = differences.loc["mdprop_2+stax@0.01"]
        told = [row[f"{prefix}map_at_r_difference{end}"] for end in ("", "_low", "_high")]
        assert told == pytest.approx([100 * v for v in (estimate.value, estimate.low, estimate.high)])
        assert row[f"{prefix}map_at_r_difference_p"] == row[f"{prefix}map_at_r_difference_p_holm"]
        assert row[f"{prefix}map_at_r_difference_p"] == pytest.approx(estimate.p)
    assert np.isnan(differences.loc["mdprop_2", "query_map_at_r_difference"])
    assert by_name.loc[[f"plain{view}" for view in shown], "map_at_r_difference"].isna().all()
    # Each beside plain on photos changed alike, and in bold where that is significant.
    printed = {column.head: column for column in attacked.COLUMNS}
    bold = {row["method"] for row in table.to_dict("records") if printed["MAP@R"].is_bold(row)}
    starred = {
        row["method"] for row in table.to_dict("records") if "*" in printed["vs plain, MAP@R"].text(row)
    }
    assert bold == {name for name in starred if by_name.loc[name, "map_at_r_difference"] > 0}
    assert (table["seeds"] == 3).all()


def test_differences_are_from_plain_of_the_same_loss_where_there_is_one() -> None:
    of_one = tables()
    of_other = [part.assign(loss="contrastive") for part in of_one]
    of_other[1].loc[of_other[1]["method"] == "plain", "map_at_r"] -= 0.05
    both = [pd.concat(pair) for pair in zip(of_one, of_other, strict=True)]
    found = attacked.table(*both, COSTS).set_index(["loss", "method"])["map_at_r_difference"]
    first, second = (found[loss, "mdprop_2+stax@0.01"] for loss in ("roth_multi_similarity", "contrastive"))
    assert second == pytest.approx(first + 5)
    without = attacked.table(*(part[part["method"] != "plain"] for part in of_one), COSTS)
    assert without[list(attacked.DIFFERENCES)].isna().all(axis=None)
    assert "vs plain" not in attacked.caption(selected(attacked=ASKED), without, {})
    assert "vs plain" in attacked.caption(selected(attacked=ASKED), attacked.table(*of_one, COSTS), {})


def test_papers_numbers_stand_beside_ours_in_brackets() -> None:
    table = attacked.table(*tables(), COSTS, published.read()).set_index("method")
    columns = [f"published_{name}" for name in attacked.PUBLISHED]
    assert table.loc["mdprop_2", columns].tolist() == [65.75, 85.23, 70.43, 0.974]
    assert table.loc["mdprop_2+stax@0.01", columns].tolist() == [57.27, 82.21, 68.06, 0.833]
    assert table.loc["plain+stax@0.01", columns[:3]].tolist() == [32.96, 64.4, 54.38]
    assert np.isnan(table.loc["plain+stax@0.01", "published_pi_ratio"])
    assert table["difference_p_at_1"].isna().all()  # theirs was chosen on test classes


def test_it_is_printed_with_names_that_people_use() -> None:
    table = attacked.table(*tables(), COSTS, published.read())
    said = attacked.caption(selected(attacked=ASKED), table, {})
    printed = formats.markdown(table, "table9", said)
    lines = [line.split("|")[1].strip() for line in printed.splitlines() if line.startswith("| ")]
    assert lines[2:] == [
        "Multi Similarity (mined)",
        "+ Random background",
        "+ STAX at 0.01",
        "+ MTAX-5 at 0.01",
        "+ MDProp, 2 attacks",
        "+ MDProp, 2 attacks + Random background",
        "+ MDProp, 2 attacks + STAX at 0.01",
        "+ MDProp, 2 attacks + MTAX-5 at 0.01",
    ]
    assert "**Retrieval under attack.** In percent. STAX and MTAX-5 at 0.01: every photo" in said
    assert "in 20 steps" in said
    assert "chosen on test photos" in said
    formats.latex(table, "table9", said).encode("ascii")


def test_costs_are_passes_by_those_of_plain_training(tmp_path: Path) -> None:
    """A step of plain training: a way there and one back, which counts as two. MDProp goes there for its targets, and there and
    back to the photos (two thirds) for one step of its attack, and there and back for what comes of it.
    """
    raw = described(tmp_path)
    named = ["plain", "mdprop", "st_2xbatch"]
    raw["grids"]["small"]["cells"][0] |= {"losses": ["contrastive"], "methods": named, "pretrained": True}
    raw["train"]["batch_size"] = 12
    found = {model.rpartition("/")[2]: cost for model, cost in costs.passes(load(tmp_path, raw)).items()}
    assert found == pytest.approx(
        {"plain": 1, "mdprop": (1 + 1 + 1 + 1 + 2 * (1 + 2 / 3 + 1)) / 3, "st_2xbatch": 2}
    )


def test_an_attack_that_lacks_queries_is_told() -> None:
    before, under, metrics = tables()
    lost = (under["attack"] == "stax@0.01") & (under["seed"] == 1) & (under["setting"] == "query")
    with pytest.raises(UserError, match="roth_multi_similarity/plain lacks values a query for query"):
        attacked.table(before, under[~lost], metrics, COSTS)
