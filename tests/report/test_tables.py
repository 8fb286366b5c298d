"""Tables: each number by hand, published ones only where they compare, nothing printed that is not there."""

from __future__ import annotations

import math
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import table_examples as examples
from asked_models import model
from handmade_results import attribution, study
from scipy import stats
from table_examples import CLARITY, THIRD
from table_inputs import DRAWS, QUERIES, SEEDS, check, drops, wide

from bgbias.errors import UserError
from bgbias.evaluation.metrics import OF_DONOR, map_at_r
from bgbias.report.tables import (
    attacked,
    crossing,
    cures,
    decomposition,
    mask_quality,
    models,
    places,
    retrieval,
    sanity,
    shape_texture,
)
from bgbias.report.tables import attribution as where_models_look
from bgbias.results import comparison, published, uncertainty
from bgbias.results.decomposition import chance_levels

PUBLISHED = Path(__file__).resolve().parents[2] / "data" / "published"


@pytest.fixture(scope="module")
def known() -> pd.DataFrame:
    return published.read(PUBLISHED)


def test_table_1_by_hand(known: pd.DataFrame) -> None:
    table = retrieval.table(*study(), known)
    plain, cured = (row for _, row in table.iterrows())
    assert (plain["seeds"], plain["draws"], plain["queries"], plain["classes"]) == (2, 2, 6, 6)
    expected = {
        "clean": 55.0,
        # Of .5 and .6, and of .35 and .35: the spread over training.
        "clean_sd_seeds": 100 * 0.1 / math.sqrt(2),
        "corrupted_sd_seeds": 0.0,
        "corrupted": 35.0,
        # Of .3 and .4 (sd .0707) and of .2 and .5 (.2121), averaged: the spread over backgrounds.
        "corrupted_sd_draws": 100 * (0.1 + 0.3) / 2 / math.sqrt(2),
        "drop": 20.0,
        "relative_drop": 100 * (1 - 0.35 / 0.55),
        "query_only": 44.0,
        "query_only_relative_drop": 20.0,
        "p_at_1_clean": 100.0,
    }
    assert plain[list(expected)].to_dict() == pytest.approx(expected, abs=1e-9)
    # Two seeds speak of these models, over classes: of their queries' means, three times .45 and .65, and .275 and .425.
    for name, apart in (("clean", 0.1), ("corrupted", 0.075), ("drop", 0.025)):
        reach = stats.t(5).ppf(0.975) * 100 * apart / math.sqrt(5)
        assert plain[f"{name}_low"] == pytest.approx(plain[name] - reach), name
        assert plain[f"{name}_high"] == pytest.approx(plain[name] + reach), name
    assert plain[["relative_drop_change", "clean_difference"]].isna().all()
    # A tenth of every query is a tenth without any class: an interval without width.
    ends = ["relative_drop", "relative_drop_low", "relative_drop_high"]
    assert cured[ends].tolist() == pytest.approx([10] * 3)
    change = cured["relative_drop_change"]
    assert change == pytest.approx(10 - 100 * (1 - 0.35 / 0.55))
    assert cured["relative_drop_change_low"] < change < cured["relative_drop_change_high"] < 0
    assert cured["relative_drop_change_p"] < 0.001
    for name in ("clean", "corrupted"):
        assert cured[f"{name}_difference"] == pytest.approx(cured[name] - plain[name])
        assert cured[f"{name}_difference_p_holm"] == cured[f"{name}_difference_p"]


@pytest.mark.parametrize(("dataset", "backbone"), [("cub50", "bn_inception"), ("sop", "resnet18")])
def test_no_published_number_beside_other_photos_or_another_backbone(
    known: pd.DataFrame, dataset: str, backbone: str
) -> None:
    table = retrieval.table(*study(dataset=dataset, backbone=backbone), known)
    assert table.filter(like="published").isna().all(axis=None)


def test_table_2_by_hand(known: pd.DataFrame) -> None:
    nan = math.nan
    scores = {
        ("plain", 0): [*[-0.1, 0.3] * 3, nan],
        ("plain", 1): [*[0.1, 0.5] * 3, nan],
        ("bgaugment", 0): [*[0.3, 0.5] * 3, nan],
        ("bgaugment", 1): [*[0.3, 0.5] * 3, nan],
    }
    plain, cured = (row for _, row in where_models_look.table(attribution(scores), known).iterrows())
    expected = {
        "seeds": 2,
        "images": 6,
        "classes": 6,
        "ref": 0.2,
        # Of -.1 and .3, and of .1 and .5, with ddof 0: .2 in both models.
        "ref_sd_images": 0.2,
        # Of .1 and .3.
        "ref_sd_seeds": 0.2 / math.sqrt(2),
        # One of four scores; adding .1 lifts it to 0, which is not below.
        "ref_negative": 25.0,
        "robust": 0.3,
        "robust_negative": 0.0,
        # Kobs & Hotho 2022, Table 2, CUB200, Triplet: 0.24 +- 0.08.
        "published_ref": 0.24,
        "published_ref_sd": 0.08,
        "difference_ref": -0.04,
    }
    assert plain[list(expected)].to_dict() == pytest.approx(expected)
    assert plain["skipped"] == "empty mask: 1"
    assert math.isnan(plain["ref_gain"])
    assert cured["ref_gain"] == pytest.approx(0.2)
    # Per image, each of a class of its own, over seeds: three times +.3 and +.1.
    reach = stats.t(5).ppf(0.975) * 0.1 / math.sqrt(5)
    assert cured[["ref_gain_low", "ref_gain_high"]].tolist() == pytest.approx([0.2 - reach, 0.2 + reach])
    assert cured["ref_gain_p"] == pytest.approx(2 * stats.t(5).sf(0.2 / (0.1 / math.sqrt(5))))


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
        clean, corrupted = (
            wide(values, method=method, setting="symmetric", condition=c)
            for c in ("clean", "random_background")
        )
        check(row, "drop_more", [3 * (clean - corrupted) * ((THIRD == 0) - 1.0 * (THIRD == 2))])
    true = mask_quality.table(values, examples.masks(iou=1 - CLARITY)).iloc[0]
    assert true["measure"] == "iou"
    assert true["worst_to"] < true["best_from"] <= 0.8
    alike = mask_quality.table(values, examples.masks(np.ones(QUERIES)))
    assert alike[["measure", "drop_worst", "drop_more_p_holm"]].isna().all(axis=None)


def test_the_worst_of_some_backgrounds_is_the_mean_over_choices() -> None:
    values, shares = examples.crossed(), examples.shares()
    numbers = {"plain": 1.0, "bgaugment": 2.0, "attr_frac": 3.0, "sam_siamese": 4.0}
    table = crossing.table(values, shares, drops(numbers)).set_index("method")
    assert "worst_20" not in table
    for place, (method, row) in enumerate(table.loc[list(examples.CROSSED)].iterrows()):
        every = np.stack([wide(values, method=method, background=b) for b in examples.BACKGROUNDS], -1)
        for name, k in (("worst_1", 1), ("worst_5", 5), ("worst_all", 6)):
            chosen = [every[..., list(some)].min(-1) for some in combinations(range(6), k)]
            check(row, name, [np.mean(chosen, axis=0)])
        assert row["object"] == pytest.approx(90 - 10 * place - 1)
        assert row["background_sd_seeds"] == pytest.approx(2)
    # What is not the object's is compared with drops over all trainings.
    assert table[["rho", "rho_models"]].drop_duplicates().to_numpy().tolist() == [[1.0, 12]]


def test_a_row_for_each_cure_stands_below_its_model_with_what_it_takes() -> None:
    before, cured, facts = examples.cures()

    def with_places(values: pd.DataFrame) -> pd.DataFrame:
        clean = values[(values["condition"] == "clean") & (values["setting"] == "symmetric")]
        other = clean.assign(setting="other_place", map_at_r=clean["map_at_r"] / 2, place=0.0)
        return pd.concat([values, other])

    table = cures.table(with_places(before), with_places(cured), facts, DRAWS)
    rows = [(m, *(f"{m}+{cure}" for cure in examples.CURES)) for m in ("pretrained", "plain", "bgaugment")]
    assert table["method"].tolist() == [name for names in rows for name in names]
    by_method = table.set_index("method")
    of_plain = by_method.loc[[f"plain+{cure}" for cure in examples.CURES]]
    holm = uncertainty.holm(of_plain["corrupted_gain_p"].tolist())
    assert of_plain["corrupted_gain_p_holm"].tolist() == pytest.approx(holm)
    assert by_method.loc["plain+grey", ["ms", "weight", "bytes"]].tolist() == pytest.approx([31, 0.1, 512])
    assert by_method.loc[["plain", "plain+leace"], "weight"].isna().all()
    # Across places, where photos say theirs.
    for name in ("", "_gain"):
        of_other, of_clean = table[f"other_place{name}"], table[f"clean{name}"]
        pd.testing.assert_series_equal(of_other, of_clean / 2, check_names=False)


def test_scores_are_correlated_with_drops_and_corrected_for_the_tables_models() -> None:
    table = sanity.table(examples.forgot(), examples.drops_of_forgot())
    assert table["over_all_p_holm"].tolist() == pytest.approx(uncertainty.holm(table["over_all_p"]))
    assert table["rho"].tolist() == [-1, -1]


def test_every_view_of_an_attack_has_its_row_beside_plain_of_its_loss_and_view() -> None:
    *of_one, costs = examples.attacked()
    of_other = [part[part["method"] != "plain"].assign(loss="contrastive") for part in of_one]
    first, seen, metrics = (pd.concat(pair) for pair in zip(of_one, of_other, strict=True))
    every = attacked.table(first, seen, metrics, costs, published.read())
    alone, table = every[every["loss"] == "contrastive"], every[every["loss"] != "contrastive"]
    assert alone[list(attacked.DIFFERENCES)].isna().all(axis=None)
    views = ["", "+random_background", *(f"+{name}" for name in examples.ATTACKS)]
    assert table["method"].tolist() == [m + view for m in examples.ATTACKED_METHODS for view in views]
    by_name = table.set_index("method")
    for view in views:
        row = by_name.loc["mdprop_2" + view]
        # Corrected for one method, which is not at all.
        assert row["map_at_r_difference_p_holm"] == row["map_at_r_difference_p"]
        assert row["nmi"] == pytest.approx(70 if view == "+random_background" else 60)
        assert (row["nmi_sd_seeds"], row["pi_ratio"], row["pi_ratio_sd_seeds"]) == pytest.approx((10, 2, 1))
    assert by_name["difference_p_at_1"].isna().all()  # theirs was chosen on test classes


def test_decisions_by_shape_stand_beside_those_of_each_seed() -> None:
    values = examples.decisions()
    for _, row in shape_texture.table(values, examples.LEARNED).iterrows():
        columns = ("precision_at_1", OF_DONOR)
        shape, texture = (wide(values, column, backbone=row["backbone"]) for column in columns)
        for seed in SEEDS:
            expected = 100 * shape[seed].sum() / (shape[seed] + texture[seed]).sum()
            assert row[f"shape_share_seed_{seed}"] == pytest.approx(expected)


def test_models_are_compared_as_audits_are_each_dataset_by_itself() -> None:
    found = comparison.compare({name: model(*levels) for name, levels in examples.LEVELS.items()})
    more = {name: 100 * e.value for name, e in comparison.differences(found.pairs, "resnet50").items()}
    for _, table in models.table(examples.as_they_come(("birds", "shop"))).groupby("dataset"):
        assert list(table["backbone"]) == list(found.models["model"]) == ["resnet50", "vit", "mobilenet"]
        for name in ("clean", "changed", "drop", "drop_low", "drop_high"):
            assert table[name].tolist() == pytest.approx((100 * found.models[name]).tolist())
        assert table["is_on_front"].tolist() == [True, True, False]
        against = table.set_index("backbone")["against_best"]
        assert np.isnan(against.pop("resnet50"))
        assert against.to_dict() == pytest.approx(more)


def test_backgrounds_carry_a_part_of_what_another_place_costs() -> None:
    table = places.table(examples.visited())
    # Of A - B the background of the place wins back C - B.
    assert table["carried"].tolist() == pytest.approx([100 * 2 / 3] * 2, abs=3)
    assert table["carried_low"].lt(table["carried"]).all()
    assert table["there_difference"].isna().tolist() == [True, False]
    values = examples.visited()
    with pytest.raises(UserError, match="No dataset of the grid has a class that was seen in two places"):
        places.table(values[~values["setting"].str.contains("place")])
