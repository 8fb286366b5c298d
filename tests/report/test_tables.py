"""Tables: each number by hand, published ones only where they compare, nothing printed that is not there."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from handmade_results import attribution, study
from scipy import stats

from bgbias.report.tables import attribution as where_models_look
from bgbias.report.tables import retrieval
from bgbias.results import published

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


@pytest.mark.parametrize(("dataset", "backbone"), [("cub50", "bn_inception"), ("sop", "resnet18")])
def test_no_published_number_beside_other_photos_or_another_backbone(
    known: pd.DataFrame, dataset: str, backbone: str
) -> None:
    table = retrieval.table(*study(dataset=dataset, backbone=backbone), known)
    assert table.filter(like="published").isna().all(axis=None)


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
