"""Table 5: its steps add up to the drop, and are what they are called."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from caption_studies import selected
from stepped import LABELS, SHOWN, naive, queries

import bgbias
from bgbias.errors import UserError
from bgbias.report import formats
from bgbias.report.tables import decomposition
from bgbias.results.decomposition import PATH, STEPS, chance_levels


def test_steps_add_up_to_the_drop_and_are_differences_of_levels() -> None:
    values = queries()
    table = decomposition.table(values, SHOWN).set_index("method")
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
        for name, condition in (("position", "moved"), ("size", "scaled")):
            levels = [naive(values, str(method), shown) for shown in ("own_inpainted", condition)]
            lost = bgbias.estimate(levels, LABELS, lambda before, after: before - after)
            assert row[name] == pytest.approx(100 * (levels[0] - levels[1]).mean())
            assert row[f"{name}_low"] == pytest.approx(100 * lost.low)
    assert table["classes"].tolist() == [8, 8]


def test_what_a_grid_does_not_show_is_left_out() -> None:
    table = decomposition.table(queries(shown=PATH), PATH)
    assert not {"gap", "only_fg", "no_fg", "only_bg", "position", "size"} & set(table)
    printed = formats.markdown(table, "table5", decomposition.caption(selected(), table, {}))
    assert "Class's backgrounds" in printed
    assert "Object alone" not in printed
    assert "Position" not in printed
    whole = decomposition.table(queries(), SHOWN)
    assert "Object alone" in formats.markdown(whole, "table5", decomposition.caption(selected(), whole, {}))


def test_models_of_one_seed_are_called_so() -> None:
    table = decomposition.table(queries(seeds=(0,)), SHOWN)
    first = decomposition.caption(selected(), table, {}).partition(".")[0]
    assert "one training seed, which speaks of these models and not of the methods" in first


def test_a_missing_draw_is_told() -> None:
    values = queries()
    lacking = values[~((values["condition"] == "mixed_same") & (values["draw"] == 1) & (values["seed"] == 2))]
    # Also if all of one model lack it that another one has.
    is_plain = values["method"] == "plain"
    in_no_seed = values[~((values["condition"] == "mixed_same") & (values["draw"] == 1) & is_plain)]
    for wrong in (lacking, in_no_seed):
        with pytest.raises(UserError, match="toy/tiny/contrastive/plain lacks values a query for mixed_same"):
            decomposition.table(wrong, SHOWN)


def test_chance_is_the_mean_over_random_orders() -> None:
    labels = np.array([0] * 3 + [1] * 5 + [2] * 2 + [3])
    told = chance_levels(labels)
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
    table = decomposition.table(queries(), SHOWN, chance={"toy": dict.fromkeys(range(8), 0.05) | {7: 0.13}})
    assert table["chance"].tolist() == pytest.approx([6.0, 6.0])
