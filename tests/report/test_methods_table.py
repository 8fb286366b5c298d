"""Table 3: differences as they are found from the values themselves, and as SciPy tests them; marks where they belong."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from caption_studies import selected
from scipy import stats

from bgbias.evaluation.metrics import OTHERS
from bgbias.photos.folds import run, seed_and_fold
from bgbias.report import formats
from bgbias.report.tables import attribution, methods, retrieval
from bgbias.results import uncertainty
from bgbias.results.uncertainty import Estimate, change_of_relative_drop, difference, estimate

QUERIES, SEEDS, DRAWS, IMAGES = 60, 4, 2, 25
CLASSES = np.arange(QUERIES) % 12
CELL = {"dataset": "toy", "backbone": "tiny", "loss": "contrastive"}
# What each method loses on corrupted photos, and gains in attribution.
METHODS = {"plain": (0.5, 0.0), "bgaugment": (0.1, 0.2), "idle": (0.5, 0.0), "idle+bgaugment": (0.12, 0.1)}


COSTS = {f"toy/tiny/contrastive/{method}": cost for method, cost in (("plain", 1.0), ("idle", 3.1))}


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
            for number, seed in enumerate(self.runs[: len(clean)]):
                views = [("symmetric", "clean", 0, clean[number])]
                for draw in range(DRAWS):
                    values = self.corrupted[method][number, draw]
                    views += [(s, "random_background", draw, values) for s in ("symmetric", "query")]
                for setting, condition, draw, values in views:
                    cell = CELL | {"method": method, "seed": seed}
                    where = {"setting": setting, "condition": condition, "draw": draw}
                    rows += [
                        cell
                        | where
                        | {"image_id": f"{i:03}", "label": CLASSES[i]}
                        | {"map_at_r": v, "precision_at_1": 1.0, OTHERS: 0.0}
                        for i, v in enumerate(values)
                    ]
        return pd.DataFrame(rows)

    def attribution(self) -> pd.DataFrame:
        return pd.DataFrame(
            [
                CELL
                | {
                    "method": method,
                    "seed": seed,
                    "image_id": f"{i:03}",
                    "label": CLASSES[i],
                    "variant": variant,
                }
                | {"score": value, "skipped": "empty mask" if math.isnan(value) else ""}
                for method, scores in self.scores.items()
                for number, seed in enumerate(self.runs[: len(scores)])
                for variant in ("ref", "robust")
                for i, value in enumerate(scores[number])
            ]
        )

    def table(self, names: tuple[str, ...] = tuple(METHODS)) -> pd.DataFrame:
        queries, scores = self.queries(), self.attribution()
        queries = queries[queries["method"].isin(names)]
        scores = scores[scores["method"].isin(names)]
        keys = [c for c in queries if c not in ("map_at_r", "precision_at_1", "image_id", "label", OTHERS)]
        tidy = queries.melt(keys, ["map_at_r", "precision_at_1"], var_name="metric")
        results = (
            tidy.groupby([*keys, "metric"], sort=False)["value"].agg(value="mean", n="count").reset_index()
        )
        first, second = retrieval.table(results, queries), attribution.table(scores)
        return methods.table(first, second, queries, COSTS)


@pytest.fixture(scope="module")
def values() -> Values:
    return Values()


@pytest.fixture(scope="module")
def table(values: Values) -> pd.DataFrame:
    return values.table()


def expected(values: Values, method: str) -> dict[str, Estimate]:
    """Each difference from plain, from the values themselves; folds of a seed averaged."""

    def of_seeds(runs: np.ndarray) -> np.ndarray:
        by_seed: dict[int, list[np.ndarray]] = {}
        for name, of_run in zip(values.runs, runs, strict=True):
            by_seed.setdefault(seed_and_fold(name)[0], []).append(of_run)
        return np.stack([np.mean(of_run, axis=0) for of_run in by_seed.values()])

    clean, corrupted, scores = (
        [of_seeds(runs) for runs in (own[method], own["plain"])]
        for own in (values.clean, {m: v.mean(axis=1) for m, v in values.corrupted.items()}, values.scores)
    )
    drops = [clean[0], corrupted[0], clean[1], corrupted[1]]
    return {
        "clean_difference": estimate(clean, CLASSES, difference),
        "corrupted_difference": estimate(corrupted, CLASSES, difference),
        "relative_drop_change": estimate(drops, CLASSES, change_of_relative_drop),
        "ref_gain": estimate(scores, CLASSES[:IMAGES], difference),
    }


def check(row: pd.Series, found: dict[str, Estimate]) -> None:
    for name, of in found.items():
        scale = 1 if name == "ref_gain" else 100
        ends = row[[name, f"{name}_low", f"{name}_high"]].to_numpy(float)
        assert ends == pytest.approx([scale * of.value, scale * of.low, scale * of.high]), name
        assert row[f"{name}_p"] == pytest.approx(of.p), name


@pytest.mark.parametrize("method", [m for m in METHODS if m != "plain"])
def test_differences_are_paired_by_query_and_seed_over_classes_and_seeds(
    values: Values, table: pd.DataFrame, method: str
) -> None:
    check(table.set_index("method").loc[method], expected(values, method))


def test_one_seed_is_tested_over_classes_as_scipy_does() -> None:
    """Classes of equal size are as many values."""
    values = Values(seeds=1)
    row = values.table().set_index("method").loc["idle"]
    for name, mine in (("clean", values.clean), ("corrupted", values.corrupted)):
        apart = (mine["idle"] - mine["plain"]).reshape(-1, QUERIES).mean(axis=0)
        by_class = [apart[label == CLASSES].mean() for label in np.unique(CLASSES)]
        assert row[f"{name}_difference_p"] == pytest.approx(stats.ttest_1samp(by_class, 0).pvalue), name


def test_a_cure_is_told_from_none(table: pd.DataFrame) -> None:
    row = table.set_index("method")
    assert row.loc["bgaugment", "relative_drop_change_p_holm"] < uncertainty.SIGNIFICANT
    assert row.loc["bgaugment", "relative_drop_change_high"] < 0
    assert row.loc["idle", "relative_drop_change_p_holm"] > uncertainty.SIGNIFICANT


def test_p_is_corrected_for_the_methods_beside_one_plain_model(values: Values, table: pd.DataFrame) -> None:
    names = [f"{d}_p" for d in (*methods.DIFFERENCES, "ref_gain")]
    for name in names:
        raw = table[name].dropna()
        assert len(raw) == 3
        assert table[f"{name}_holm"].dropna().tolist() == pytest.approx(uncertainty.holm(raw.tolist()))
    alone = values.table(("plain", "idle")).iloc[1]
    for name in names:
        assert alone[f"{name}_holm"] == alone[name] == table.set_index("method").loc["idle", name]


def test_levels_have_intervals_over_classes_and_seeds(values: Values, table: pd.DataFrame) -> None:
    for method, row in table.set_index("method").iterrows():
        corrupted = estimate([values.corrupted[str(method)].mean(axis=1)], CLASSES)
        ends = row[["corrupted_low", "corrupted_high"]].to_numpy(float)
        assert ends == pytest.approx([100 * corrupted.low, 100 * corrupted.high])
    for name in ("clean", "corrupted", "ref"):
        assert (table[f"{name}_low"] < table[name]).all()
        assert (table[name] < table[f"{name}_high"]).all()


def test_plain_is_compared_with_nothing(table: pd.DataFrame) -> None:
    plain = table.iloc[0]
    assert plain["method"] == "plain"
    assert plain.filter(regex=r"_p$|_p_holm$|_difference|_change").isna().all()


def test_methods_on_replaced_backgrounds_are_compared_with_bgaugment_alone(
    values: Values, table: pd.DataFrame
) -> None:
    both = table.set_index("method").loc["idle+bgaugment"]
    for name, own in (
        ("clean", values.clean),
        ("corrupted", {m: v.mean(axis=1) for m, v in values.corrupted.items()}),
    ):
        found = estimate([own["idle+bgaugment"], own["bgaugment"]], CLASSES, difference)
        column = f"{name}_over_bgaugment"
        ends = both[[column, f"{column}_low", f"{column}_high"]].to_numpy(float)
        assert ends == pytest.approx([100 * found.value, 100 * found.low, 100 * found.high])
        # The only row that has it: nothing to correct for.
        assert both[f"{column}_p_holm"] == both[f"{column}_p"] == pytest.approx(found.p)
        assert table[column].notna().sum() == 1
    told = formats.markdown(table, "table3", methods.caption(selected(), table, {}))
    assert "| vs BGAugment, corrupted | vs BGAugment, clean |" in told
    assert "vs BGAugment: the row minus BGAugment alone" in told
    without = values.table(("plain", "bgaugment", "idle"))
    assert not without.filter(like="over_bgaugment").size
    assert "vs BGAugment" not in formats.markdown(without, "table3", methods.caption(selected(), without, {}))


def test_costs_stand_in_the_rows_of_models_that_have_some(table: pd.DataFrame) -> None:
    assert table.set_index("method")["cost"].dropna().to_dict() == {"plain": 1.0, "idle": 3.1}
    assert "Cost: passes of a training step" in methods.caption(selected(), table, {})
    assert "Cost:" not in methods.caption(selected(), table.drop(columns="cost"), {})


def test_folds_are_no_further_seeds() -> None:
    values, alone = Values(seeds=3, of_folds=4), Values(seeds=1, of_folds=4)
    for own, seeds, of in ((values, "3 seeds", "and training seeds"), (alone, "1 seed", "alone")):
        made = own.table()
        check(made.set_index("method").loc["idle"], expected(own, "idle"))
        text = formats.markdown(made, "table3", methods.caption(selected(), made, {}))
        assert f"· {seeds} · 4 folds · 2 draws ·" in text
        assert "4 folds: as many models" in text
        assert "one seed's folds count once" in text
        assert f"95 % over classes {of}," in text


def test_seeds_that_plain_has_not_are_left_out(values: Values) -> None:
    fewer = Values()
    for own in (fewer.clean, fewer.corrupted, fewer.scores):
        own["plain"] = own["plain"][:3]
    made = fewer.table().set_index("method")
    both = Values()
    both.runs = both.runs[:3]
    for own in (both.clean, both.corrupted, both.scores):
        own |= {name: of_runs[:3] for name, of_runs in own.items()}
    check(made.loc["idle"], expected(both, "idle"))
    # Of itself a model keeps all of its seeds.
    assert made.loc["idle", "seeds"] == 4
    assert made.loc["idle", "clean"] == pytest.approx(100 * values.clean["idle"].mean())


def test_marks_stand_where_the_tests_say(table: pd.DataFrame) -> None:
    made = table.copy()
    change = [f"relative_drop_change{end}" for end in ("", "_low", "_high", "_p_holm")]
    made.loc[1, change] = [-40.0, -42.0, -38.0, 0.049]
    made.loc[2, change] = [-3.0, -8.0, 2.0, 0.05]
    made.loc[3, change] = [-30.0, -32.0, -28.0, 0.001]
    text = formats.markdown(made, "table3", "")
    assert "| −40.0 [−42.0, −38.0] * |" in text
    assert "| −3.0 [−8.0, 2.0] |" in text
    assert "| −30.0 [−32.0, −28.0] * |" in text


def test_every_form_holds_the_same_rows_and_csv_every_digit(table: pd.DataFrame, tmp_path: Path) -> None:
    caption = methods.caption(selected(), table, {})
    written = formats.write(table, tmp_path, "table3", caption)
    pd.testing.assert_frame_equal(pd.read_csv(written["csv"]), table, check_exact=True)
    text = written["md"].read_text()
    assert "toy · tiny · 4 seeds · 2 draws · 60 queries" in text
    # The same whenever it is made.
    assert not any(word in text for word in ("GPU", "cpu", "Memory", "Step"))
    assert "95 % over classes and training seeds, for the method trained again and other classes" in text
    assert "seed," not in text.split("\n\n", 1)[0]  # four seeds speak of methods
    assert "fold" not in text
    assert written["tex"].read_text().isascii()
    shown = formats.show(table, "table3")
    assert max(map(len, shown.splitlines())) <= formats.WIDTH
    assert shown.count("vs plain [95 %]") == 2


def test_dvc_compares_what_the_table_adds(table: pd.DataFrame) -> None:
    found = formats.headline(table, "table3")["toy"]["tiny"]["contrastive"]
    assert found["plain"] == {}
    assert found["bgaugment"] == {
        "corrupted, minus plain": table.loc[1, "corrupted_difference"],
        "clean, minus plain": table.loc[1, "clean_difference"],
    }


def test_a_table_that_is_too_wide_for_a_terminal_loses_its_last_columns(table: pd.DataFrame) -> None:
    made = table.assign(method=["plain", "bgaugment", "idle", "a_cure_of_a_very_long_name+bgaugment"])
    shown = formats.show(made, "table3")
    assert max(map(len, shown.splitlines())) <= formats.WIDTH
    assert "A cure of a very long name + BGAugment" in shown
    assert "vs plain [95 %]" in shown
