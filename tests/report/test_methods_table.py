"""Table 3: differences as they are found from the values themselves, and as SciPy tests them; marks where they belong."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd
import pytest
from table_inputs import check, less, queries, results, wide

from bgbias.photos.folds import run, seed_and_fold
from bgbias.report.tables import attribution, methods, retrieval
from bgbias.results import uncertainty
from bgbias.results.uncertainty import change_of_relative_drop

# What each method finds: of everything more or less, its gain on other backgrounds comes of chance alone for ``idle``.
SHARES = {"plain": 1.0, "bgaugment": 1.3, "idle": 1.0, "idle+bgaugment": 1.25}
COSTS = {f"toy/tiny/contrastive/{method}": cost for method, cost in (("plain", 1.0), ("idle", 3.1))}
SEEDS = (0, 1, 2, 3)


def values(
    of_runs: Iterable[object] = SEEDS, names: Iterable[str] = SHARES
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Queries, and attribution scores of half of the photos, the last of which is skipped."""
    of_queries = queries({name: SHARES[name] for name in names}, of_seeds=list(of_runs))
    clean = of_queries.query("setting == 'symmetric' and condition == 'clean'")
    scores = clean[clean["image_id"] < "24.jpg"].drop(columns=["setting", "condition", "draw"])
    scores = scores.assign(score=scores["map_at_r"].where(scores["image_id"] != "23.jpg"), skipped="")
    scores.loc[scores["score"].isna(), "skipped"] = "empty mask"
    return of_queries, pd.concat([scores.assign(variant=variant) for variant in ("ref", "robust")])


def made(of_queries: pd.DataFrame, scores: pd.DataFrame) -> pd.DataFrame:
    first = retrieval.table(results(of_queries), of_queries)
    return methods.table(first, attribution.table(scores), of_queries, COSTS)


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return made(*values())


def check_differences(
    row: pd.Series, of_queries: pd.DataFrame, scores: pd.DataFrame, seeds: Iterable[int] = SEEDS
) -> None:
    """Each difference of a row from plain, paired by query and seed; folds of a seed averaged."""
    of_queries, scores = (
        part.assign(seed=[seed_and_fold(name)[0] for name in part["seed"]]) for part in (of_queries, scores)
    )
    both = [
        {
            name: wide(
                of_queries[of_queries["seed"].isin(list(seeds))],
                method=method,
                setting="symmetric",
                condition=condition,
            )
            for name, condition in (("clean", "clean"), ("corrupted", "random_background"))
        }
        for method in (row["method"], "plain")
    ]
    for name in ("clean", "corrupted"):
        check(row, f"{name}_difference", [of[name] for of in both], less)
    drops = [of[name] for of in both for name in ("clean", "corrupted")]
    check(row, "relative_drop_change", drops, change_of_relative_drop)
    own = scores[(scores["variant"] == "ref") & scores["seed"].isin(list(seeds))]
    wanted = own.pivot_table("score", ["method", "seed"], "image_id", dropna=False)
    looks = [
        np.pad(wanted.loc[m].to_numpy(), ((0, 0), (0, 48 - wanted.shape[1])), constant_values=np.nan)
        for m in (row["method"], "plain")
    ]
    check(row, "ref_gain", looks, less, scale=1)


def test_differences_are_paired_by_query_and_seed_over_classes_and_seeds(table: pd.DataFrame) -> None:
    for _, row in table[table["method"] != "plain"].iterrows():
        check_differences(row, *values())
    of_queries, _ = values()
    for _, row in table.iterrows():
        check(
            row,
            "corrupted",
            [wide(of_queries, method=row["method"], setting="symmetric", condition="random_background")],
        )
    plain = table.iloc[0]
    assert plain["method"] == "plain"
    assert plain.filter(regex=r"_p$|_p_holm$|_difference|_change").isna().all()
    by_method = table.set_index("method")
    assert by_method["cost"].dropna().to_dict() == {"plain": 1.0, "idle": 3.1}
    assert by_method.loc["bgaugment", "corrupted_difference_p_holm"] < uncertainty.SIGNIFICANT
    assert by_method.loc["idle", "corrupted_difference_p_holm"] > uncertainty.SIGNIFICANT


def test_p_is_corrected_for_the_methods_beside_one_plain_model(table: pd.DataFrame) -> None:
    names = [f"{d}_p" for d in (*methods.DIFFERENCES, "ref_gain")]
    alone = made(*values(names=("plain", "idle"))).iloc[1]
    for name in names:
        raw = table[name].dropna()
        assert len(raw) == 3
        assert table[f"{name}_holm"].dropna().tolist() == pytest.approx(uncertainty.holm(raw.tolist()))
        assert alone[f"{name}_holm"] == alone[name] == table.set_index("method").loc["idle", name]


def test_methods_on_replaced_backgrounds_are_compared_with_bgaugment_alone(table: pd.DataFrame) -> None:
    of_queries, _ = values()
    both = table.set_index("method").loc["idle+bgaugment"]
    for name, condition in (("clean", "clean"), ("corrupted", "random_background")):
        own = [
            wide(of_queries, method=m, setting="symmetric", condition=condition)
            for m in ("idle+bgaugment", "bgaugment")
        ]
        column = f"{name}_over_bgaugment"
        check(both, column, own, less)
        # The only row that has it: nothing to correct for.
        assert both[f"{column}_p_holm"] == both[f"{column}_p"]
        assert table[column].notna().sum() == 1


def test_folds_are_no_further_seeds_and_seeds_that_plain_has_not_are_left_out() -> None:
    folds = [str(run(seed, fold)) for seed in (0, 1, 2) for fold in range(2)]
    own = values(folds, ("plain", "idle"))
    check_differences(made(*own).iloc[1], *own, (0, 1, 2))
    fewer = [part[(part["method"] != "plain") | (part["seed"] < 3)] for part in values()]
    row = made(*fewer).set_index("method", drop=False).loc["idle"]
    check_differences(row, *fewer, (0, 1, 2))
    # Of itself a model keeps all of its seeds.
    assert row["seeds"] == 4
    assert row["clean"] == pytest.approx(
        100 * wide(values()[0], method="idle", setting="symmetric", condition="clean").mean()
    )
