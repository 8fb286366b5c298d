"""What pages say in words, without a number that a command writes, is what their published tables hold.

words_of_results.yaml has the sentences of each page; functions pair what is found with what they say of it.
"""

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from bgbias.results.uncertainty import SIGNIFICANT

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "docs/results"
SENTENCES = yaml.safe_load(Path(__file__).with_name("words_of_results.yaml").read_text(encoding="utf-8"))
COMPARED = ("papers", "papers_cub50", "rivals", "rivals_cub50", "negatives", "attacks", "attacks_cub50")
Pairs = Iterator[tuple[Any, Any]]


@cache
def table(grid: str, name: str) -> pd.DataFrame:
    return pd.read_csv(RESULTS / grid / f"{name}.csv", keep_default_na=False, na_values=[""])


def gains(*grids: str, added: bool = False) -> pd.DataFrame:
    """Table 3 of grids without plain training; ``added``: with methods that are added to BGAugment."""
    every = pd.concat([table(grid, "table3").assign(grid=grid) for grid in grids])
    rows = every.dropna(subset="corrupted_difference")
    return rows if added else rows[~rows["method"].str.contains("+", regex=False)]


def significant(rows: pd.DataFrame, column: str) -> pd.Series:
    return rows[f"{column}_p_holm"] < SIGNIFICANT


def changed(rows: pd.DataFrame, column: str, by: Any = "method", digits: int = 0) -> dict[Any, float]:
    """The significant differences of a column, by the rows' names."""
    named = rows.set_index(by)
    return named.loc[significant(named, column), column].round(digits).to_dict()


def ends(values: pd.Series) -> list[float]:
    """The lowest and the highest, rounded."""
    return values.agg(["min", "max"]).round().tolist()


def real_photos() -> Pairs:
    """What BGAugment changes of plain training on birds and groceries, and what training itself gains."""
    for grid, points in (("cub50", [3, 4]), ("grocery", [15, 16])):
        clean = table(grid, "seeds").set_index(["method", "loss", "seed"])["clean"].sort_index()
        more = [clean["plain", loss] - clean["untrained", "none"] for loss in ("contrastive", "arcface")]
        yield all((of > 0).all() for of in more), True
        yield sorted(round(of.mean()) for of in more), points
    rows, by = pd.concat([table(grid, "table3") for grid in ("cub50", "grocery")]), ["dataset", "loss"]
    drops = rows[rows["method"] == "plain"].groupby("dataset")["relative_drop"]
    yield {name: ends(of) for name, of in drops}, {"cub50": [33, 36], "grocery": [46, 48]}
    own = rows[rows["method"] == "bgaugment"]
    of_birds = {("cub50", "contrastive"): 2.3, ("cub50", "arcface"): 2.8}
    of_groceries = {("grocery", "contrastive"): 4.2, ("grocery", "arcface"): 6.6}
    yield changed(own, "corrupted_difference", by, 1), of_birds | of_groceries
    yield changed(own, "clean_difference", by, 1), {("grocery", "arcface"): -3.0}
    reduced = changed(own, "relative_drop_change", by)
    yield [*reduced.values()], [-9, -9, -12, -15]
    yield {loss for _, loss in changed(own, "ref_gain", by)}, {"arcface"}
    clean = rows[rows["dataset"] == "cub50"].set_index("method")["clean"]
    yield clean["pretrained"] > clean["plain"].max(), True


def controls() -> Pairs:
    masks = pd.read_csv(ROOT / "docs/sensitivity/controls.csv")
    above = masks[masks["pasting_low"] > 0].groupby("masks").size()
    yield [above[f"true, {missing} px smaller"] for missing in (5, 3, 1)], [4, 4, 2]
    steps = pd.concat([table(grid, "table5") for grid in ("controls", "controls_cub50", "controls_grocery")])
    plain = steps[(steps["loss"] != "none") & (steps["method"] == "plain")]
    yield len(plain) >= 4, True
    yield (plain["pasting"] < 1.1).all(), True
    yield plain["drop"].max(), pytest.approx(61.8, abs=0.2)
    photos = plain.set_index("dataset").loc[["cub50", "grocery"]]
    of_photos = photos[["drop", "pasting", "own_background", "class_background"]].round(1)
    yield of_photos.to_numpy().tolist(), [[9.5, 0.7, 2.6, 6.1], [27.5, 0.7, 7.4, 19.5]]
    ends_of_pasting = plain.set_index("dataset").loc[["demo_90", "grocery"], ["pasting_low", "pasting_high"]]
    yield ends_of_pasting.round(2).to_numpy().tolist(), [[-0.04, 0.81], [-0.05, 1.44]]
    unclear = table("controls_grocery", "table10").set_index("method").loc["plain"]
    yield unclear["drop_more_p_holm"] < SIGNIFICANT, True
    shown = unclear[["drop_more", "own_background_worst", "own_background_best"]]
    yield shown.astype(float).round().tolist(), [17, 14, 3]
    yield table("controls_cub50", "table10")["drop_more_p"].min() > 0.05, True
    for grid, left in (("controls_cub50", [7.1, 24.1]), ("controls_grocery", [12.4, 41.0])):
        worst = table(grid, "table6").set_index("method").loc["plain", ["worst_all", "worst_1"]]
        yield worst.astype(float).round(1).tolist(), left
    cures = table("controls_grocery", "table7").set_index("method").filter(regex="^plain", axis=0)
    for cure, points in (("grey", [9, -14]), ("object_pooling", [5, -3])):
        gained = cures.loc[f"plain+{cure}", ["corrupted_gain", "clean_gain"]]
        yield gained.astype(float).round().tolist(), points
    yield (cures.filter(like="_p_holm").dropna() < SIGNIFICANT).all(axis=None), True
    yield cures.loc[["plain+object_pooling", "plain"], "ms"].round().tolist(), [642, 17]
    queries_alone = table("controls_grocery", "table1").set_index("method")["query_only"]
    yield queries_alone[["bgaugment", "plain"]].round(1).tolist(), [38.9, 38.0]


def demo() -> Pairs:
    rows = table("demo", "table1").set_index(["dataset", "loss", "method"])
    numbers = rows[["relative_drop", "relative_drop_low", "relative_drop_high"]].astype(float).round()
    yield numbers.loc[("demo_90", "contrastive", "plain")].tolist(), [73, 58, 87]
    yield numbers.loc[("demo_90", "contrastive", "bgaugment")].tolist(), [15, 2, 28]
    cost = gains("demo")
    yield changed(cost, "clean_difference", ["dataset", "loss"]), {("demo_90", "contrastive"): -13}
    of_five = table("controls", "table3").set_index(["dataset", "method"]).loc[("demo_50", "bgaugment")]
    differences = of_five[["clean_difference", "relative_drop_change"]].astype(float)
    yield differences.round().tolist(), [-7, -10]
    yield of_five[["clean_difference_p_holm", "relative_drop_change_p_holm"]].max() < SIGNIFICANT, True
    seeds = table("demo", "seeds").query("loss == 'contrastive'")
    drops = seeds.pivot(index=["method", "seed"], columns="dataset", values="relative_drop")
    plain, cured = (drops.loc[method, "demo_90"] for method in ("plain", "bgaugment"))
    yield (cured < plain / 2).all(), True
    yield (drops["demo_00"] < drops["demo_50"]).all() and (drops["demo_50"] < drops["demo_90"]).all(), True


def compared() -> Pairs:
    """Toys and birds on which methods were compared: every significant change by a method, and by adding one to BGAugment."""
    rows, by = gains(*COMPARED), ["grid", "method", "loss"]
    best, others = rows[rows["method"] == "bgaugment"], rows[rows["method"] != "bgaugment"]
    yield significant(best, "corrupted_difference").all(), True
    groups = [part.set_index("method") for _, part in rows.groupby(["grid", "dataset", "backbone", "loss"])]
    first = [part["corrupted_difference"].idxmax() for part in groups if "bgaugment" in part.index]
    yield set(first), {"bgaugment"}
    of_grid = best.groupby("grid")["corrupted_difference"]
    yield (
        {grid: ends(points) for grid, points in of_grid if len(points) > 1},
        {"papers": [36, 43], "rivals": [26, 40]},
    )
    alone = best.set_index("grid").loc[["negatives", "attacks"], "corrupted_difference"]
    yield alone.round().tolist(), [36, 42]
    of_birds = best[best["grid"].str.endswith("cub50")].set_index("grid")["corrupted_difference"]
    yield of_birds.round(1).to_dict(), {"papers_cub50": 2.0, "rivals_cub50": 3.0, "attacks_cub50": 1.9}
    gained = {
        ("papers", "attr_frac", "contrastive"): 27.5,
        ("papers", "bgneg", "contrastive"): 16.6,
        ("papers", "bgneg", "triplet"): 12.8,
        ("papers", "bgneg", "multi_similarity"): 13.9,
        ("papers", "plain_4", "cosface"): 9.0,
        ("papers", "dcml_code", "cosface"): 11.0,
        ("papers", "bgneg", "cosface"): 10.8,
        ("rivals", "attr_frac", "contrastive"): 10.2,
        ("attacks_cub50", "at_strong", "contrastive"): 0.7,
        ("attacks_cub50", "mdprop_2", "contrastive"): 1.2,
        ("attacks_cub50", "mdprop_2_strong", "contrastive"): 1.3,
    }
    lost = {
        ("papers", "sam_siamese", "contrastive"): -6.9,
        ("papers_cub50", "patch_ns", "contrastive"): -2.0,
        ("rivals", "dcml_paper", "cosface"): -20.2,
    }
    yield changed(others, "corrupted_difference", by, 1), gained | lost
    costs = {
        ("papers", "patch_ns", "triplet"): -15.1,
        ("papers_cub50", "patch_ns", "contrastive"): -3.6,
        ("rivals", "bgaugment", "quadruplet"): -10.3,
        ("negatives", "bgaugment", "contrastive"): -13.5,
        ("negatives", "patch_ns", "contrastive"): -13.9,
        ("negatives", "texture_ns", "contrastive"): -7.6,
        ("negatives", "bgneg", "contrastive"): -24.1,
        ("negatives", "bgneg_rect", "contrastive"): -26.6,
        ("attacks", "s2sd", "contrastive"): -34.3,
        ("attacks_cub50", "mdprop_2_strong", "contrastive"): 1.8,
    }
    yield changed(rows, "clean_difference", by, 1), costs
    steps = table("papers", "table5")
    plain = steps[steps["method"] == "plain"]
    yield ends(plain["drop"]), [47, 55]
    yield (plain["pasting"] < 1).all(), True
    yield ((steps["own_background_low"] > 0) | (steps["own_background_high"] < 0)).any(), False
    added = gains(*COMPARED, added=True)
    on_top = {("negatives", "bgneg+bgaugment", "contrastive"): -12.4}
    yield changed(added, "corrupted_over_bgaugment", by, 1), on_top


@pytest.mark.parametrize("page", SENTENCES)
def test_a_page_has_the_sentences_that_tables_hold(page: str) -> None:
    text = " ".join((RESULTS / page).read_text(encoding="utf-8").split())
    assert [sentence for sentence in SENTENCES[page] if sentence not in text] == []


@pytest.mark.parametrize("look_up", [real_photos, controls, demo, compared])
def test_tables_hold_what_pages_say(look_up: Callable[[], Pairs]) -> None:
    for found, said in look_up():
        assert found == said
