"""Tables: each number by hand, published ones only where they compare, nothing printed that is not there."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from caption_studies import selected
from handmade_results import CURED, PLAIN, attribution, study
from scipy import stats

from bgbias.errors import UserError
from bgbias.report import formats
from bgbias.report.tables import attribution as where_models_look
from bgbias.report.tables import retrieval
from bgbias.results import published
from bgbias.study.cell import Cell

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
        "p_at_1_corrupted": 100.0,
    }
    assert plain[list(expected)].to_dict() == pytest.approx(expected, abs=1e-9)
    # Two seeds speak of these models, over classes: of their queries' means, three times .45 and .65, and .275 and .425.
    for name, apart in (("clean", 0.1), ("corrupted", 0.075), ("drop", 0.025)):
        reach = stats.t(5).ppf(0.975) * 100 * apart / math.sqrt(5)
        assert plain[f"{name}_low"] == pytest.approx(plain[name] - reach), name
        assert plain[f"{name}_high"] == pytest.approx(plain[name] + reach), name
    assert plain["relative_drop_low"] < plain["relative_drop"] < plain["relative_drop_high"]
    assert math.isnan(plain["relative_drop_change"])
    # A tenth of every query is a tenth without any class: an interval without width.
    assert cured[["relative_drop", "relative_drop_low", "relative_drop_high"]].tolist() == pytest.approx(
        [10] * 3
    )
    change = cured["relative_drop_change"]
    assert change == pytest.approx(10 - 100 * (1 - 0.35 / 0.55))
    assert cured["relative_drop_change_low"] < change < cured["relative_drop_change_high"] < 0
    assert cured["relative_drop_change_p"] < 0.001
    assert math.isnan(plain["clean_difference"])
    for name in ("clean", "corrupted"):
        assert cured[f"{name}_difference"] == pytest.approx(cured[name] - plain[name])
        assert cured[f"{name}_difference_p_holm"] == cured[f"{name}_difference_p"]


def test_a_method_that_drops_as_plain_does_changes_nothing() -> None:
    models = {("triplet", "plain"): PLAIN, ("triplet", "bgaugment"): PLAIN}
    cured = retrieval.table(*study(models)).iloc[1]
    # Paired: the same queries in both, so that not even the interval has a width.
    change = [f"relative_drop_change{end}" for end in ("", "_low", "_high", "_p")]
    assert cured[change].tolist() == [0.0, 0.0, 0.0, 1.0]


def test_difference_to_the_paper_where_it_has_the_cell(known: pd.DataFrame) -> None:
    # Kobs & Hotho 2022, Table 1, SOP, Contrastive: 37.98 clean, 4.17 +- 0.05 corrupted.
    plain = retrieval.table(*study(), known).iloc[0]
    assert (plain["published_clean"], plain["published_corrupted"]) == (37.98, 4.17)
    assert plain["published_corrupted_sd"] == 0.05
    assert plain["difference_clean"] == pytest.approx(55 - 37.98)
    assert plain["difference_corrupted"] == pytest.approx(35 - 4.17)


@pytest.mark.parametrize(("dataset", "backbone"), [("cub50", "bn_inception"), ("sop", "resnet18")])
def test_no_published_number_beside_other_photos_or_another_backbone(
    known: pd.DataFrame, dataset: str, backbone: str
) -> None:
    table = retrieval.table(*study(dataset=dataset, backbone=backbone), known)
    assert table.filter(like="published").isna().all(axis=None)
    assert "Paper" not in formats.markdown(table, "table1", "")


def test_numbers_that_were_found_in_another_way_stand_in_brackets(known: pd.DataFrame) -> None:
    models = {("cosface", "plain"): PLAIN}
    models |= {("cosface", f"{name}+512d"): CURED for name in ("dcml_no_envs", "dcml_e1")}
    table = retrieval.table(*study(models, dataset="cub200"), known)
    # Deng & Zhang 2022: COS in Table 1, 128 dimensions; without environments in Table 5, 512.
    assert table["published_clean"].tolist() == [21.21, 26.56, 28.06]
    assert table["published_p_at_1_clean"].tolist() == [59.63, 67.69, 69.63]
    assert table["difference_clean"].isna().all()
    caption = retrieval.caption(selected(), table, {})
    assert (
        "Paper, in brackets: found in another way (Deng & Zhang 2022 Table 1: mean of four models" in caption
    )
    assert "Deng & Zhang 2022 Table 5, 6: the four embeddings given unit length together" in caption
    assert "Kobs" not in caption
    text = formats.markdown(table, "table1", caption)
    assert "| (21.21) | (59.6) |" in text
    assert "| (26.56) | (67.7) |" in text


def test_the_mean_of_four_folds_is_compared_with_a_papers(known: pd.DataFrame) -> None:
    runs = {f"{seed}-fold{fold}" if fold else str(seed): PLAIN[seed] for seed in PLAIN for fold in range(4)}
    table = retrieval.table(*study({("cosface", "plain"): runs}, dataset="cub200"), known)
    assert table.loc[0, ["seeds", "folds"]].tolist() == [2, 4]
    assert table.loc[0, "difference_clean"] == pytest.approx(55 - 21.21)
    assert "Paper: Deng & Zhang (2022), Δ: ours minus theirs" in retrieval.caption(selected(), table, {})


def test_papers_are_named_that_numbers_come_from(known: pd.DataFrame) -> None:
    caption = retrieval.caption(selected(), retrieval.table(*study(), known), {})
    assert " Paper: Kobs & Hotho (2022), Δ: ours minus theirs. Paper, in brackets: " in caption
    ours = retrieval.table(*study(dataset="cub50"), known)
    assert "Paper" not in retrieval.caption(selected(), ours, {})


def test_rows_stand_in_the_papers_order() -> None:
    models = {("arcface", "bgaugment"): CURED, ("arcface", "plain"): PLAIN, ("none", "untrained"): PLAIN}
    models |= {("contrastive", "plain"): PLAIN, ("none", "pretrained"): {0: PLAIN[0]}}
    table = retrieval.table(*study(models))
    assert list(zip(table["loss"], table["method"], strict=True)) == [
        ("none", "pretrained"),
        ("none", "untrained"),
        ("contrastive", "plain"),
        ("arcface", "plain"),
        ("arcface", "bgaugment"),
    ]
    # A method is compared with plain of its own loss, and pretrained with nobody.
    assert table["relative_drop_change"].notna().tolist() == [False, False, False, False, True]


def test_a_cell_without_a_result_is_named() -> None:
    missing = Cell("sop", "bn_inception", "contrastive", "bgaugment", 2)
    with pytest.raises(
        UserError, match=r"sop/bn_inception/contrastive/bgaugment/seed2.*snakemake --cores all"
    ):
        retrieval.table(*study(), cells=[Cell("sop", "bn_inception", "contrastive", "plain", 0), missing])


def test_a_missing_draw_is_named() -> None:
    results, queries = study()
    gone = (results["seed"] == 1) & (results["draw"] == 1) & (results["method"] == "plain")
    with pytest.raises(UserError, match=r"contrastive/plain/seed1 has no map_at_r for symmetric .* draw 1"):
        retrieval.table(results[~gone], queries)


def test_absent_queries_are_an_error_and_not_skipped_queries() -> None:
    results, queries = study()
    with pytest.raises(UserError, match=r"contrastive/plain lacks values a query for query_only"):
        retrieval.table(results, queries.drop(queries.index[queries["setting"] == "query"][0]))


def test_results_and_queries_of_different_runs_are_refused() -> None:
    results, queries = study()
    results.loc[results["condition"] == "random_background", "value"] += 0.01
    with pytest.raises(UserError, match=r"not of the same run"):
        retrieval.table(results, queries)


def test_queries_with_nobody_to_find_change_nothing() -> None:
    results, queries = study()
    alone = queries[queries["image_id"] == "a.jpg"].assign(image_id="alone.jpg", map_at_r=np.nan)
    with_alone = retrieval.table(results, pd.concat([queries, alone], ignore_index=True))
    assert with_alone["relative_drop"].tolist() == pytest.approx(
        retrieval.table(results, queries)["relative_drop"]
    )


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


def test_table_2_shows_similarity_where_it_was_asked_for(known: pd.DataFrame, tmp_path: Path) -> None:
    scores = {("plain", 0): [0.1, 0.2], ("bgaugment", 0): [0.3, 0.4]}
    asked, not_asked = (
        where_models_look.table(attribution(scores, further), known)
        for further in ({"similarity": 0.2}, None)
    )
    assert asked["similarity"].tolist() == pytest.approx([0.35, 0.55])
    assert asked["similarity_gain"][1] == pytest.approx(0.2)
    pd.testing.assert_frame_equal(asked[list(not_asked)], not_asked)
    for table, shown in ((asked, True), (not_asked, False)):
        caption = where_models_look.caption(selected(attribution=SimpleNamespace(images=None)), table, {})
        text = formats.write(table, tmp_path, "table2", caption)["md"].read_text()
        assert ("Similarity" in text) == ("similarity attention" in text) == shown


def test_a_variant_without_scores_is_named() -> None:
    rows = attribution({("plain", 0): [0.1, 0.2]})
    with pytest.raises(UserError, match=r"triplet/plain/seed0 has no attribution score of variant 'robust'"):
        where_models_look.table(rows[rows["variant"] == "ref"])
    rows.loc[rows["variant"] == "robust", "score"] = math.nan
    with pytest.raises(UserError, match=r"triplet/plain/seed0 has no attribution score of variant 'robust'"):
        where_models_look.table(rows)


def test_one_seed_has_no_spread_over_seeds() -> None:
    models = {("arcface", "plain"): {0: PLAIN[0]}}
    table = retrieval.table(*study(models))
    assert math.isnan(table.loc[0, "corrupted_sd_seeds"])
    assert "| ArcFace | 35.0 [23.5, 46.5] | 7.07 | 50.0 [38.5, 61.5] |" in formats.markdown(
        table, "table1", ""
    )
