"""Table 3: differences by hand, tests as SciPy makes them of the same numbers, costs beside, marks where they belong."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from bgbias.photos.folds import run
from bgbias.report import formats
from bgbias.report.tables import attribution, methods, retrieval
from bgbias.results import tests
from bgbias.results.rows import MODEL

QUERIES, SEEDS, DRAWS, IMAGES = 60, 4, 2, 25
CELL = {"dataset": "toy", "backbone": "tiny", "loss": "contrastive"}
# What each method loses on corrupted photos, and gains in attribution.
METHODS = {"plain": (0.5, 0.0), "bgaugment": (0.1, 0.2), "idle": (0.5, 0.0), "idle+bgaugment": (0.12, 0.1)}


class Values:
    """MAP@R [S, N] clean, [S, D, N] corrupted, and attribution scores [S, I] of each method; S: seeds and folds."""

    def __init__(self, seeds: int = SEEDS, of_folds: int = 1) -> None:
        self.runs = [run(seed, fold) for seed in range(seeds) for fold in range(of_folds)]
        # As a column of seeds and folds has them.
        self.runs = [*map(str, self.runs)] if of_folds > 1 else self.runs
        seeds *= of_folds
        self.clean, self.corrupted, self.scores = {}, {}, {}
        for number, (method, (loss, gain)) in enumerate(METHODS.items()):
            random = np.random.default_rng(number)
            level = np.random.default_rng(99).beta(5, 3, QUERIES)
            self.clean[method] = np.clip(level + random.normal(0, 0.03, (seeds, QUERIES)), 0.01, 1)
            kept = 1 - loss + random.normal(0, 0.05, (seeds, 1, 1))
            self.corrupted[method] = self.clean[method][:, None] * np.clip(
                kept + random.normal(0, 0.1, (seeds, DRAWS, QUERIES)), 0, 1
            )
            self.scores[method] = 0.3 + gain + random.normal(0, 0.1, (seeds, IMAGES))
            self.scores[method][:, -1] = math.nan

    def queries(self) -> pd.DataFrame:
        rows = []
        for method, clean in self.clean.items():
            for number, seed in enumerate(self.runs):
                views = [("symmetric", "clean", 0, clean[number])]
                for draw in range(DRAWS):
                    values = self.corrupted[method][number, draw]
                    views += [(s, "random_background", draw, values) for s in ("symmetric", "query")]
                for setting, condition, draw, values in views:
                    cell = CELL | {"method": method, "seed": seed}
                    where = {"setting": setting, "condition": condition, "draw": draw}
                    rows += [
                        cell | where | {"image_id": f"{i:03}", "map_at_r": v, "precision_at_1": 1.0}
                        for i, v in enumerate(values)
                    ]
        return pd.DataFrame(rows)

    def attribution(self) -> pd.DataFrame:
        return pd.DataFrame(
            [
                CELL
                | {"method": method, "seed": seed, "image_id": f"{i:03}", "variant": variant}
                | {"score": value, "skipped": "empty mask" if math.isnan(value) else ""}
                for method, scores in self.scores.items()
                for number, seed in enumerate(self.runs)
                for variant in ("ref", "robust")
                for i, value in enumerate(scores[number])
            ]
        )

    def table(self, names: tuple[str, ...] = tuple(METHODS)) -> pd.DataFrame:
        queries, scores = self.queries(), self.attribution()
        queries = queries[queries["method"].isin(names)]
        scores = scores[scores["method"].isin(names)]
        keys = [c for c in queries if c not in ("map_at_r", "precision_at_1", "image_id")]
        tidy = queries.melt(keys, ["map_at_r", "precision_at_1"], var_name="metric")
        results = (
            tidy.groupby([*keys, "metric"], sort=False)["value"].agg(value="mean", n="count").reset_index()
        )
        first, second = retrieval.table(results, queries), attribution.table(scores)
        return methods.table(first, second, queries, scores)


@pytest.fixture(scope="module")
def values() -> Values:
    return Values()


@pytest.fixture(scope="module")
def table(values: Values) -> pd.DataFrame:
    return values.table()


def by_seed(values: Values, method: str) -> dict[str, np.ndarray]:
    """Each difference from plain [S], from the values themselves."""

    def drops(name: str) -> np.ndarray:
        return 1 - values.corrupted[name].mean(axis=(1, 2)) / values.clean[name].mean(axis=1)

    def score(name: str) -> np.ndarray:
        return np.nanmean(values.scores[name], axis=1)

    clean, corrupted = values.clean, values.corrupted
    return {
        "clean_difference": 100 * (clean[method] - clean["plain"]).mean(axis=1),
        "corrupted_difference": 100 * (corrupted[method] - corrupted["plain"]).mean(axis=(1, 2)),
        "cure": 100 * (drops("plain") - drops(method)),
        "ref_gain": score(method) - score("plain"),
    }


@pytest.mark.parametrize("method", [m for m in METHODS if m != "plain"])
def test_over_seeds_every_difference_is_tested_as_scipy_does(
    values: Values, table: pd.DataFrame, method: str
) -> None:
    row = table.set_index("method").loc[method]
    for name, found in by_seed(values, method).items():
        expected = stats.ttest_1samp(found, 0)
        interval = expected.confidence_interval()
        assert row[f"{name}_seeds"] == pytest.approx(found.mean()), name
        assert row[f"{name}_seeds_p"] == pytest.approx(expected.pvalue), name
        ends = row[[f"{name}_seeds_low", f"{name}_seeds_high"]].tolist()
        assert ends == pytest.approx([interval.low, interval.high]), name
        assert row[f"{name}_low"] < row[name] < row[f"{name}_high"], name
        if name != "cure":  # a drop of means is not the mean of drops
            assert row[name] == pytest.approx(found.mean()), name


def test_over_queries_differences_are_tested_on_means_over_seeds_and_draws(
    values: Values, table: pd.DataFrame
) -> None:
    row = table.set_index("method").loc["idle"]
    by_query = {
        "clean_difference": (values.clean["idle"] - values.clean["plain"]).mean(axis=0),
        "corrupted_difference": (values.corrupted["idle"] - values.corrupted["plain"]).mean(axis=(0, 1)),
        "ref_gain": (values.scores["idle"] - values.scores["plain"]).mean(axis=0)[:-1],
    }
    for name, found in by_query.items():
        # Twenty flips and more: the t test is a good approximation of all of them.
        assert row[f"{name}_p"] == pytest.approx(stats.ttest_1samp(found, 0).pvalue, abs=0.02), name


def test_a_cure_is_told_from_none(table: pd.DataFrame) -> None:
    row = table.set_index("method")
    assert row.loc["bgaugment", ["cure_p_holm", "cure_seeds_p_holm"]].max() < tests.SIGNIFICANT
    assert row.loc["idle", "cure_seeds_p_holm"] > tests.SIGNIFICANT


def test_p_is_corrected_for_the_methods_beside_one_plain_model(values: Values, table: pd.DataFrame) -> None:
    names = [f"{d}{over}" for d in methods.DIFFERENCES for over in ("_p", "_seeds_p")]
    for name in names:
        raw = table[name].dropna()
        assert len(raw) == 3
        assert table[f"{name}_holm"].dropna().tolist() == pytest.approx(tests.holm(raw.tolist()))
    alone = values.table(("plain", "idle")).iloc[1]
    for name in names:
        assert alone[f"{name}_holm"] == alone[name] == table.set_index("method").loc["idle", name]


def test_levels_have_intervals_over_queries_too(values: Values, table: pd.DataFrame) -> None:
    for name in ("clean", "corrupted", "ref"):
        assert (table[f"{name}_low"] < table[name]).all()
        assert (table[name] < table[f"{name}_high"]).all()
    level = 100 * values.clean["plain"].mean(axis=0)
    # A bootstrap of a mean is nearly normal: 1.96 standard errors to either side.
    width = 2 * 1.96 * level.std() / math.sqrt(QUERIES)
    assert table.loc[0, "clean_high"] - table.loc[0, "clean_low"] == pytest.approx(width, rel=0.1)


def test_plain_is_compared_with_nothing(table: pd.DataFrame) -> None:
    plain = table.iloc[0]
    assert plain["method"] == "plain"
    assert plain.filter(regex=r"_p$|_p_holm$|_difference").isna().all()


def test_one_seed_has_no_test_over_seeds() -> None:
    made = Values(seeds=1).table()
    assert made.filter(regex="_seeds_(low|high|p|p_holm)$").isna().all(axis=None)
    assert made["cure_p"].notna().sum() == 3
    text = formats.markdown(made, "table3", "")
    assert "over seeds" not in text
    assert "†" not in text


def test_folds_are_no_further_seeds() -> None:
    values = Values(seeds=3, of_folds=4)
    made = values.table()
    for name, of_runs in by_seed(values, "idle").items():
        expected = stats.ttest_1samp(of_runs.reshape(3, 4).mean(axis=1), 0)
        row = made.set_index("method").loc["idle"]
        assert row[f"{name}_seeds_p"] == pytest.approx(expected.pvalue), name
        assert row[f"{name}_seeds"] == pytest.approx(of_runs.mean()), name
    alone = Values(seeds=1, of_folds=4).table()
    assert alone.filter(regex="_seeds_(low|high|p|p_holm)$").isna().all(axis=None)
    for table, seeds in ((made, "3 seeds"), (alone, "1 seed")):
        text = formats.markdown(table, "table3", methods.told(table, "clean"))
        assert f"· {seeds} · 4 folds · 2 draws ·" in text
        assert "4 folds: as many models" in text
        assert "the differences of one seed's folds are averaged and count once" in text
        assert ("Cure, over seeds" in text) == (table is made)


def test_seeds_that_plain_has_not_are_left_out_over_seeds(values: Values) -> None:
    queries, scores = values.queries(), values.attribution()
    table1, table2 = (values.table()[[*MODEL, *c]] for c in (methods.FROM_TABLE_1, methods.FROM_TABLE_2))
    kept = [~((f["method"] == "plain") & (f["seed"] == 3)) for f in (queries, scores)]
    made = methods.table(table1, table2, queries[kept[0]], scores[kept[1]])
    found = {n: d[:3] for n, d in by_seed(values, "idle").items()}
    row = made.set_index("method").loc["idle"]
    for name, expected in found.items():
        assert row[f"{name}_seeds_p"] == pytest.approx(stats.ttest_1samp(expected, 0).pvalue), name


def test_marks_stand_where_the_tests_say(table: pd.DataFrame) -> None:
    made = table.copy()
    made.loc[1, ["cure", "cure_low", "cure_high"]] = [40.0, 38.0, 42.0]
    made.loc[1, ["cure_p_holm", "cure_seeds_p_holm"]] = [0.049, 0.051]
    made.loc[2, ["cure_p_holm", "cure_seeds_p_holm"]] = [0.05, 0.05]
    made.loc[3, ["cure", "cure_low", "cure_high"]] = [30.0, 28.0, 32.0]
    made.loc[3, ["cure_p_holm", "cure_seeds_p_holm"]] = [0.001, 0.001]
    text = formats.markdown(made, "table3", "")
    assert "| 40.0 [38.0, 42.0] * |" in text
    assert "| 30.0 [28.0, 32.0] *† |" in text
    (idle,) = (line for line in text.splitlines() if line.startswith("| + Idle |"))
    assert "*" not in idle.split("|")[7]


def test_every_form_holds_the_same_rows_and_csv_every_digit(table: pd.DataFrame, tmp_path: Path) -> None:
    caption = methods.told(table, "clean")
    written = formats.write(table, tmp_path, "table3", caption)
    pd.testing.assert_frame_equal(pd.read_csv(written["csv"]), table, check_exact=True)
    text = written["md"].read_text()
    assert "toy · tiny · 4 seeds · 2 draws · 60 queries" in text
    # The same whenever it is made.
    assert not any(word in text for word in ("GPU", "cpu", "Memory", "Step"))
    assert "10,000 flips" in text
    assert "those of one class are not" in text
    assert "fold" not in text
    assert written["tex"].read_text().isascii()
    shown = formats.show(table, "table3")
    assert max(map(len, shown.splitlines())) <= formats.WIDTH
    assert "Cure, points [95 %]" in shown


def test_dvc_compares_cures(table: pd.DataFrame) -> None:
    found = formats.headline(table, "table3")["toy"]["tiny"]["contrastive"]
    assert found["plain"] == {}
    assert found["bgaugment"]["cure"] == table.loc[1, "cure"]


def test_a_table_that_is_too_wide_for_a_terminal_loses_its_last_columns(table: pd.DataFrame) -> None:
    made = table.assign(method=["plain", "bgaugment", "idle", "a_cure_of_a_very_long_name+bgaugment"])
    shown = formats.show(made, "table3")
    assert max(map(len, shown.splitlines())) <= formats.WIDTH
    assert "A cure of a very long name + BGAugment" in shown
    assert "Cure, points [95 %]" in shown
