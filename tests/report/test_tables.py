"""Numbers of tables against naive code: those that are more than levels and their differences, and those of Table 3.

How all are printed, and with which numbers: test_printed.py.
"""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
import table_examples as examples
from table_examples import CLARITY, THIRD
from table_inputs import DRAWS, SEEDS, check, drops, less, queries, results, wide

from bgbias.errors import UserError
from bgbias.evaluation.metrics import OF_DONOR, map_at_r
from bgbias.photos.folds import run, seed_and_fold
from bgbias.report.tables import (
    attribution,
    crossing,
    cures,
    decomposition,
    mask_quality,
    methods,
    places,
    pretrainings,
    retrieval,
    shape_texture,
)
from bgbias.results import uncertainty
from bgbias.results.decomposition import chance_levels

PARTS = (("map_at_r", "clean"), ("map_at_r", "random_background"), ("score", "clean"))


def test_chance_is_that_of_a_random_order_of_all_others() -> None:
    labels = np.array([0] * 3 + [1] * 5 + [2] * 2 + [3])
    of_class = chance_levels(labels)
    expected = map_at_r.chance_level(np.array([2, 4, 1]), len(labels) - 1)
    assert [of_class[label] for label in (0, 1, 2)] == pytest.approx(expected.tolist())
    assert np.isnan(of_class[3])
    chance = {"toy": dict.fromkeys(range(8), 0.05) | {7: 0.13}}
    table = decomposition.table(examples.stepped(), tuple(examples.STEPS), chance=chance)
    assert table["chance"].tolist() == pytest.approx([6.0, 6.0])
    # Of 7 photos, a query's own and its donor's left out: of a class of 3 there are 2 among 5, of one of 4 3 among 5.
    assert shape_texture.chance_levels(np.array([4, 4, 4, 6, 6, 6, 6])) == pytest.approx({4: 0.4, 6: 0.6})
    shapes = {"toy": {label: 0.1 * (label % 2) for label in range(8)}}
    chances = shape_texture.table(examples.decisions(), chance=shapes)["chance"]
    assert chances.tolist() == pytest.approx([5, 5])


def test_thirds_are_those_of_masks_and_differ_by_what_their_queries_lose() -> None:
    values = examples.stepped()
    for method, row in mask_quality.table(values, examples.masks()).set_index("method").iterrows():
        bounds = CLARITY[THIRD == 0].min(), CLARITY[THIRD == 2].max()
        assert (row["measure"], row["worst_from"], row["best_to"]) == ("clarity", *bounds)
        # Each class has as many queries in each third: a third's mean is one over all of three times its own values.
        own = {"method": method, "setting": "symmetric"}
        clean, corrupted = (wide(values, **own, condition=c) for c in ("clean", "random_background"))
        check(row, "drop_more", [3 * (clean - corrupted) * ((THIRD == 0) - 1.0 * (THIRD == 2))])
    true = mask_quality.table(values, examples.masks(iou=1 - CLARITY)).iloc[0]
    assert true["measure"] == "iou"
    assert true["worst_to"] < true["best_from"] <= 0.8


def test_the_worst_of_some_backgrounds_is_the_mean_over_choices() -> None:
    values = examples.crossed()
    lost = drops(dict.fromkeys(examples.CROSSED, 1.0))
    table = crossing.table(values, examples.shares(), lost).set_index("method")
    for method, row in table.iterrows():
        every = np.stack([wide(values, method=method, background=b) for b in examples.BACKGROUNDS], -1)
        for name, k in (("worst_1", 1), ("worst_5", 5), ("worst_all", 6)):
            chosen = [every[..., list(some)].min(-1) for some in combinations(range(6), k)]
            check(row, name, [np.mean(chosen, axis=0)])


def test_cures_are_compared_across_places_where_photos_say_theirs() -> None:
    before, cured, facts = examples.cures()

    def with_places(values: pd.DataFrame) -> pd.DataFrame:
        clean = values[(values["condition"] == "clean") & (values["setting"] == "symmetric")]
        other = clean.assign(setting="other_place", map_at_r=clean["map_at_r"] / 2, place=0.0)
        return pd.concat([values, other])

    table = cures.table(with_places(before), with_places(cured), facts, DRAWS)
    for name in ("", "_gain"):
        of_other, of_clean = table[f"other_place{name}"], table[f"clean{name}"]
        pd.testing.assert_series_equal(of_other, of_clean / 2, check_names=False)


def test_decisions_by_shape_stand_beside_those_of_each_seed() -> None:
    values = examples.decisions()
    for _, row in shape_texture.table(values, examples.LEARNED).iterrows():
        columns = ("precision_at_1", OF_DONOR)
        shape, texture = (wide(values, column, backbone=row["backbone"]) for column in columns)
        for seed in SEEDS:
            expected = 100 * shape[seed].sum() / (shape[seed] + texture[seed]).sum()
            assert row[f"shape_share_seed_{seed}"] == pytest.approx(expected)


def test_backgrounds_carry_a_part_of_what_another_place_costs() -> None:
    table = places.table(examples.visited())
    # Of A - B the background of the place wins back C - B.
    assert table["carried"].tolist() == pytest.approx([100 * 2 / 3] * 2, abs=3)
    assert table["carried_low"].lt(table["carried"]).all()
    assert table["there_difference"].isna().tolist() == [True, False]
    values = examples.visited()
    with pytest.raises(UserError, match="No dataset of the grid has a class that was seen in two places"):
        places.table(values[~values["setting"].str.contains("place")])


def test_pretrainings_share_their_seeds_and_correct_for_all_backbones() -> None:
    against = {("toy", name, "none", "pretrained"): other for name, other in examples.AGAINST.items()}
    table = pretrainings.table(*examples.pretrained(), examples.probed(), against)
    assert table.set_index("backbone")["against"].to_dict() == examples.AGAINST
    holm = uncertainty.holm(table["corrupted_difference_p"].tolist())
    assert table["corrupted_difference_p_holm"].tolist() == pytest.approx(holm.tolist())
    of_queries, scores = examples.pretrained(examples.ALL_SEEDS | {"moco": (0, 1)})
    scores.loc[scores["backbone"] == "moco_patches", "score"] = np.nan
    fewer = pretrainings.table(of_queries, scores, examples.probed(), against).set_index("backbone")
    assert fewer.at["moco_patches", "seeds"] == 2
    assert fewer["ref_gain"].isna().to_dict() == {"moco": False, "moco_patches": True}


# -- Table 3 -----------------------------------------------------------------------------------------------------------

# What each method finds: of everything more or less, its gain on other backgrounds comes of chance alone for ``idle``.
SHARES = {"plain": 1.0, "bgaugment": 1.3, "idle": 1.0, "idle+bgaugment": 1.25}
ELSEWHERE = {"setting": "symmetric", "condition": "random_background"}


def of_methods(of_seeds: Sequence[object] = range(4), names: Sequence[str] = tuple(SHARES)) -> pd.DataFrame:
    """Values a query, their attribution scores their MAP@R; those of some are skipped."""
    made = queries({name: SHARES[name] for name in names}, of_seeds=of_seeds)
    return made.assign(score=made["map_at_r"].where(made["image_id"] < "23.jpg"))


def compared(values: pd.DataFrame) -> pd.DataFrame:
    clean = values[(values["setting"] == "symmetric") & (values["condition"] == "clean")]
    scores = pd.concat([clean.assign(variant=variant, skipped="") for variant in ("ref", "robust")])
    return methods.table(retrieval.table(results(values), values), attribution.table(scores), values)


def verify(table: pd.DataFrame, values: pd.DataFrame) -> None:
    """Differences from plain training, their intervals and p, are those of values that are selected naively."""
    for _, row in table.iterrows():
        (clean, corrupted, score), (of_clean, of_corrupted, of_score) = (
            [wide(values, column, method=method, setting="symmetric", condition=of) for column, of in PARTS]
            for method in (row["method"], "plain")
        )
        check(row, "corrupted_difference", [corrupted, of_corrupted], less)
        check(row, "clean_difference", [clean, of_clean], less)
        of_four = [clean, corrupted, of_clean, of_corrupted]
        check(row, "relative_drop_change", of_four, uncertainty.change_of_relative_drop)
        check(row, "ref_gain", [score, of_score], less, 1)


def test_methods_are_compared_with_plain_and_on_replaced_backgrounds_with_bgaugment() -> None:
    values = of_methods()
    table = compared(values).set_index("method", drop=False)
    others = table.drop("plain")
    verify(others, values)
    own, best = (wide(values, method=name, **ELSEWHERE) for name in ("idle+bgaugment", "bgaugment"))
    check(table.loc["idle+bgaugment"], "corrupted", [own])
    check(table.loc["idle+bgaugment"], "corrupted_over_bgaugment", [own, best], less)
    assert table["corrupted_over_bgaugment"].notna().sum() == 1
    holm = uncertainty.holm(others["corrupted_difference_p"].tolist())
    assert others["corrupted_difference_p_holm"].tolist() == pytest.approx(holm)


def test_folds_are_no_further_seeds_and_seeds_that_plain_has_not_are_left_out() -> None:
    folds = of_methods([str(run(seed, fold)) for seed in (0, 1, 2) for fold in range(2)], ("plain", "idle"))
    by_seed = folds.assign(seed=[seed_and_fold(name)[0] for name in folds["seed"]])
    verify(compared(folds).iloc[1:], by_seed)
    every = of_methods(names=("plain", "idle"))
    table = compared(every[(every["method"] != "plain") | (every["seed"] < 3)])
    verify(table.iloc[1:], every[every["seed"] < 3])
    # Of itself a model keeps all of its seeds.
    own = wide(every, method="idle", **ELSEWHERE)
    check(table.iloc[1], "corrupted", [own])
