"""What the page on composites and another place says is what its sums give."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr

from bgbias.results import uncertainty

ROOT = Path(__file__).resolve().parents[2]
SHARES = ("object", "background", "interaction")


@pytest.fixture(scope="module")
def study() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "docs/results/validity.py"), run_name="validity")


@pytest.fixture(scope="module")
def page() -> str:
    return " ".join((ROOT / "docs/results/validity.md").read_text(encoding="utf-8").split())


def test_statistics_in_words_are_those_of_the_table(study: dict[str, Any], page: str) -> None:
    of, printed, scaled = study["Sums"]("main"), study["printed"], study["scaled"]

    def less(composite: str) -> str:
        found = scaled(study["more_than"](of, composite), -100)
        return f"{found.value:.0f} [{found.high:.0f}, {found.low:.0f}]".replace("-", "−")

    def percent(estimate: Any) -> str:
        return str(printed(scaled(estimate, 100), 0))

    assert f"rank correlation of {printed(study['over_networks'](of, 'a'))}." in page
    assert f"by {less('a')} percentage points" in page
    assert (
        f"most of what pasted products lose between visits:** {percent(study['carried'](of))} is won"
        in page.replace(" % [", " [")
    )
    slope, correlation = printed(study["slope"](of, "b")), printed(study["over_networks"](of, "b"))
    assert f"rank correlation {correlation}, slope {slope}, and {less('b')} points more" in page
    assert f"within a network, is {printed(study['over_products'](of, 'a'))}" in page


def test_what_the_page_says_of_single_networks_holds(study: dict[str, Any], page: str) -> None:
    of = study["Sums"]("main")
    drops = of.drops(np.arange(len(of.products)))
    assert "it was larger than the real one for every network" in page
    assert (drops["a"] > drops["natural"]).all()
    shares = {name: 100 * study["carried"](of, n).value for n, name in enumerate(of.networks)}
    vit = shares.pop("ViT-S/14 (saliency)")
    assert (
        f"All but one lie between {min(shares.values()):.0f} and {max(shares.values()):.0f} % carried" in page
    )
    assert f"has {vit:.0f} %" in page
    levels = of.levels(np.arange(len(of.products)))
    assert "here either ranks networks about as well by what they find at the other visit" in page
    assert "rank correlations 0.90 and 0.88" in page
    found = [spearmanr(levels[of_level], levels["there"]).statistic for of_level in ("here", "composite")]
    assert [f"{one:.2f}" for one in found] == ["0.90", "0.88"]
    assert "The main run has 614 queries of 620 photos" in page
    assert of.queries[0, 0].sum() == 614
    assert of.networks[int(levels["here"].argmin())] == "ViT-S/14 (saliency)"


def test_shares_tell_what_the_page_says(study: dict[str, Any], page: str) -> None:
    table, permuted = study["shares"](), study["permuted"]
    assert "The larger the object's share, and the smaller the background's, the smaller both drops." in page
    for drop in ("a", "natural"):
        assert spearmanr(table["object"], table[drop]).statistic < 0
        assert permuted(table["object"], table[drop]) < 0.05
    for drop in ("a", "natural"):
        assert spearmanr(table["background"], table[drop]).statistic > 0
    assert "only the background's share stays significant after Holm's correction for the nine tests" in page
    tests = {(c, d): permuted(table[c], table[d]) for c in SHARES for d in ("a", "natural", "grey")}
    corrected = dict(zip(tests, uncertainty.holm(list(tests.values())), strict=True))
    natural = {column: corrected[column, "natural"] < 0.05 for column in SHARES}
    assert natural == {"object": False, "background": True, "interaction": False}
    assert (
        "Of the interaction there is no sign that it predicts a drop, or what a grey background gains" in page
    )
    for column in ("a", "natural", "grey"):
        assert permuted(table["interaction"], table[column]) > 0.05


def test_other_masks_and_other_photos_say_what_the_page_says(study: dict[str, Any], page: str) -> None:
    assert "The order holds as well, over eight networks of two families" in page
    apart = {}
    for run in ("isnet", "other_draws"):
        of = study["Sums"](run)
        assert study["over_networks"](of, "a").low > 0.5
        assert study["carried"](of).low > 0.5
        apart[run] = study["more_than"](of, "a")
    assert (
        "exaggerate by 17 points with IS-Net's masks, and by 6, not significantly, with the other draws"
        in page
    )
    assert [round(-100 * found.value) for found in apart.values()] == [17, 6]
    assert apart["isnet"].high < 0 < apart["other_draws"].high
    assert "with the other draws the slope's interval is [0.37, 1.03], and begins below 0.5" in page
    slope = study["slope"](study["Sums"]("other_draws"), "b")
    assert (round(slope.low, 2), round(slope.high, 2)) == (0.37, 1.03)


def test_no_cure_helps_at_the_other_visit(study: dict[str, Any], page: str) -> None:
    published = study["publication"].read("two_visits")
    table, places, retrieval = (
        published.table(name).set_index("method") for name in ("table7", "table16", "table1")
    )
    cures = table[table.index.str.contains("+", regex=False)]
    assert "none gains significantly at the other visit" in page
    assert not ((cures["other_place_gain_p_holm"] < 0.05) & (cures["other_place_gain"] > 0)).any()
    grey = cures.loc["plain+grey"]
    assert (
        f"Grey backgrounds gain the trained model {grey['corrupted_gain']:.1f} points on composites"
        f" and cost it {-grey['other_place_gain']:.1f} at" in page
    )
    assert grey["other_place_gain_p_holm"] < 0.05
    for model in ("pretrained", "bgaugment"):
        assert cures.loc[f"{model}+grey", "other_place_gain_p_holm"] > 0.05
    assert f"Gains of up to {cures['other_place_gain_high'].max():.0f} points are not excluded" in page
    assert "Pooling on the object is the only one" in page
    for model in ("plain", "pretrained"):
        winning = cures[cures.index.str.startswith(model) & (cures["corrupted_gain_p_holm"] < 0.05)]
        assert f"{model}+object_pooling" in winning.index
    winning = cures[cures.index.str.startswith("plain") & (cures["corrupted_gain_p_holm"] < 0.05)]
    assert winning.index[winning["other_place_gain"] > -1].tolist() == ["plain+object_pooling"]
    assert (
        f"Patches take {table.loc['plain+patchwise', 'bytes'] / table.loc['plain+grey', 'bytes']:.0f} times"
        in page
    )
    assert (
        f"the backbone loses {places.loc['pretrained', 'natural']:.0f} % there, the trained model"
        f" {places.loc['plain', 'natural']:.0f} %"
    ) in page
    assert (
        f"it loses {retrieval.loc['bgaugment', 'relative_drop']:.0f} instead of"
        f" {retrieval.loc['plain', 'relative_drop']:.0f} % on composites"
    ) in page
    less = places.loc["bgaugment"]
    ends = ", ".join(f"{less[f'there_difference_{end}']:.1f}" for end in ("low", "high"))
    assert f"({less['there_difference']:.1f} [{ends}] points, not significant".replace("-", "−") in page
    assert less["there_difference_p_holm"] > 0.05


def test_levels_without_a_product_lack_it_in_queries_and_gallery(study: dict[str, Any]) -> None:
    of = study["Sums"]("main")
    table = pd.read_csv(ROOT / "docs/results/validity/main.csv")
    own = table[(table["network"] == of.networks[3]) & (table["level"] == "there")].set_index("product")
    gone = of.products[5]
    others = own.drop(index=gone)
    expected = (others["map_at_r"].sum() + own.loc[gone, "of_others"]) / others["queries"].sum()
    without = np.delete(np.arange(len(of.products)), 5)
    assert of.levels(without)["there"][3] == pytest.approx(expected)


def test_the_p_of_a_permutation_is_that_of_all_orders(study: dict[str, Any]) -> None:
    from itertools import permutations

    one, other = np.array([1.0, 2, 3, 4, 5, 6]), np.array([2.0, 1, 4, 3, 6, 5])
    own = abs(spearmanr(one, other).statistic)
    every = [abs(spearmanr(order, other).statistic) >= own - 1e-9 for order in permutations(one)]
    assert study["permuted"](one, other) == pytest.approx(np.mean(every), abs=0.01)
