"""What pages say in words, without a number that a command writes, is what their published tables hold.

words_of_results.yaml has the sentences of each page; the function of a page's name pairs what is found with what they say of it.
"""

from __future__ import annotations

from collections.abc import Iterator
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
COLLECTIONS = ("birds", "groceries", "products")
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


def above_random_layers(grid: str, points: list[int]) -> Pairs:
    clean = table(grid, "seeds").set_index(["method", "loss", "seed"])["clean"].sort_index()
    more = [clean["plain", loss] - clean["untrained", "none"] for loss in ("contrastive", "arcface")]
    yield [len(of) for of in more], [3, 3]
    yield all((of > 0).all() for of in more), True
    yield sorted(round(of.mean()) for of in more), points


def on_real_photos(
    grid: str, gained: list[int], costs: dict[str, int], drops: list[int], less: set[int], p_of_arcface: float
) -> Pairs:
    every = table(grid, "table3")
    rows = every[every["method"] == "bgaugment"]
    yield sorted(changed(rows, "corrupted_difference", "loss").values()), gained
    yield significant(rows, "relative_drop_change").all(), True
    yield changed(rows, "clean_difference", "loss"), costs
    yield ends(every.loc[every["method"] == "plain", "relative_drop"]), drops
    yield set(-rows["relative_drop_change"].round()), less
    yield [*changed(rows, "ref_gain", "loss")], ["arcface"]
    yield round(rows.set_index("loss").loc["arcface", "ref_gain_p_holm"], 4), p_of_arcface


def published(collection: str) -> pd.DataFrame:
    return table("public_models", f"{collection}_models").set_index("model")


def against_others(name: str, collection: str) -> tuple[int, int, int]:
    """How many other networks this one is significantly better than, worse than, and neither, on other backgrounds."""
    pairs = table("public_models", f"{collection}_pairs")
    own = pairs[(pairs["model"] == name) | (pairs["other"] == name)]
    ahead = own["changed"] * own["model"].eq(name).map({True: 1, False: -1})
    better, worse = ((significant(own, "changed") & of).sum() for of in (ahead > 0, ahead < 0))
    return int(better), int(worse), len(own) - int(better + worse)


def pasted(grid: str, drop: float, pasting: float) -> Pairs:
    rows = table(grid, "table5").set_index("method").loc[["plain"]].iloc[-1]
    yield (rows["drop"], rows["pasting"]), (pytest.approx(drop, abs=0.2), pytest.approx(pasting, abs=0.05))


def cub50() -> Pairs:
    yield from above_random_layers("cub50", [3, 4])
    yield from on_real_photos("cub50", gained=[2, 3], costs={}, drops=[33, 36], less={9}, p_of_arcface=0.0497)
    clean = table("cub50", "table3").set_index("method")["clean"]
    yield clean["pretrained"] > clean["plain"].max(), True


def grocery() -> Pairs:
    yield from above_random_layers("grocery", [15, 16])
    costs = {"arcface": -3}
    yield from on_real_photos(
        "grocery", gained=[4, 7], costs=costs, drops=[46, 48], less={12, 15}, p_of_arcface=0.0122
    )


def controls() -> Pairs:
    masks = pd.read_csv(ROOT / "docs/sensitivity/controls.csv")
    above = masks[masks["pasting_low"] > 0].groupby("masks").size()
    yield [above[f"true, {missing} px smaller"] for missing in (5, 3, 1)], [4, 4, 2]
    yield from pasted("controls", 61.8, 0.4)


def index() -> Pairs:
    real = pd.concat([table(grid, "table3") for grid in ("cub50", "grocery")])
    yield ends(real.loc[real["method"] == "plain", "relative_drop"]), [33, 48]
    own = real[real["method"] == "bgaugment"]
    gained = changed(own, "corrupted_difference", ["dataset", "loss"], 1)
    yield (len(gained), min(gained.values()), max(gained.values())), (4, 2.3, 6.6)
    yield changed(own, "clean_difference", ["dataset", "loss"], 1), {("grocery", "arcface"): -3.0}
    pasted = pd.concat([table(g, "table5") for g in ("controls", "controls_cub50", "controls_grocery")])
    trained = pasted[(pasted["loss"] != "none") & (pasted["method"] == "plain")]
    yield len(trained) >= 4, True
    yield (trained["pasting"] < 1.1).all(), True
    compared = [
        beside.set_index("method")["corrupted_difference"].idxmax()
        for _, beside in gains(*COMPARED).groupby(["grid", "dataset", "backbone", "loss"])
        if "bgaugment" in set(beside["method"]) and len(beside) > 1
    ]
    yield len(compared) > 8, True
    yield set(compared), {"bgaugment"}


def demo() -> Pairs:
    rows = table("demo", "table1").set_index(["dataset", "loss", "method"])
    numbers = rows[["relative_drop", "relative_drop_low", "relative_drop_high"]].astype(float).round()
    yield numbers.loc[("demo_90", "contrastive", "plain")].tolist(), [71, 48, 93]
    yield numbers.loc[("demo_90", "contrastive", "bgaugment")].tolist(), [22, 9, 35]
    yield rows.loc[("demo_00", "contrastive", "plain"), "relative_drop"] < 0, True
    cost = gains("demo")
    yield changed(cost, "clean_difference", ["dataset", "loss"]), {("demo_90", "contrastive"): -15}
    yield cost.loc[cost["dataset"] == "demo_50", "clean_difference"].round().tolist(), [-7]


def tutorial() -> Pairs:
    seeds = table("demo", "seeds").query("loss == 'contrastive'")
    drops = seeds.pivot(index=["method", "seed"], columns="dataset", values="relative_drop")
    yield len(drops), 6
    plain, cured = (drops.loc[method, "demo_90"] for method in ("plain", "bgaugment"))
    yield (cured < plain / 2).all(), True
    for few, more in (("demo_00", "demo_50"), ("demo_50", "demo_90")):
        yield (drops[few] < drops[more]).all(), True


def papers() -> Pairs:
    rows = gains("papers")
    best = rows[rows["method"] == "bgaugment"]
    yield len(changed(best, "corrupted_difference", "loss")), rows["loss"].nunique()
    yield (len(best), best["loss"].nunique()), (5, 5)
    yield changed(best, "clean_difference", "loss"), {}
    yield ends(best["corrupted_difference"]), [32, 40]
    yield rows.loc[rows["method"] != "bgaugment", "corrupted_difference"].max() < 32, True
    added = gains("papers", added=True).dropna(subset="corrupted_over_bgaugment")
    yield len(added), 6
    yield changed(added, "corrupted_over_bgaugment"), {}
    rows, by = gains("papers"), ["method", "loss"]
    gained = changed(rows[rows["method"] != "bgaugment"], "corrupted_difference", by)
    yield (
        {model: points for model, points in gained.items() if points > 0},
        {
            ("attr_frac", "contrastive"): 22,
            ("bgneg", "contrastive"): 14,
            ("bgneg", "triplet"): 14,
            ("bgneg", "cosface"): 13,
        },
    )


def papers_cub50() -> Pairs:
    for rows, points in ((gains("papers_cub50", "attacks_cub50"), 2.1), (gains("rivals_cub50"), 3.0)):
        best = rows[rows["method"] == "bgaugment"]
        yield set(changed(best, "corrupted_difference", "grid", 1).values()), {points}
        yield significant(best, "corrupted_difference").all(), True
        yield changed(best, "clean_difference"), {}
        yield best["corrupted_difference"].min() >= rows["corrupted_difference"].max(), True
    for difference in ("corrupted_difference", "clean_difference"):
        yield changed(gains("papers_cub50"), difference)["patch_ns"] < 0, True


def rivals() -> Pairs:
    rows = gains("rivals")
    best, others = rows[rows["method"] == "bgaugment"], rows[rows["method"] != "bgaugment"]
    yield (len(best), rows["loss"].nunique()), (4, 4)
    yield significant(best, "corrupted_difference").all(), True
    yield ends(best["corrupted_difference"]), [26, 40]
    yield changed(best, "clean_difference", "loss"), {"quadruplet": -10}
    own = {("attr_frac", "contrastive"): 10, ("dcml_paper", "cosface"): -20}
    yield changed(others, "corrupted_difference", ["method", "loss"]), own
    drops = table("rivals", "table3").query("loss == 'contrastive'").set_index("method")["relative_drop"]
    yield drops[["plain", "bgaugment"]].round().tolist(), [66, 9]
    added = gains("rivals", added=True)
    added = added[added["method"].isin(["attr_frac+bgaugment", "dcml_code+bgaugment"])]
    yield changed(added, "corrupted_over_bgaugment"), {}
    yield changed(added, "clean_difference"), {"attr_frac+bgaugment": -15}


def attacks() -> Pairs:
    rows = gains("attacks")
    yield changed(rows, "corrupted_difference"), {"bgaugment": 42}
    yield changed(rows, "clean_difference"), {"s2sd": -34}
    attacked = table("attacks", "table9")
    levels = attacked.set_index("method")["map_at_r"].round()
    yield levels[["plain+stax@0.1", "at_strong+stax@0.1"]].tolist(), [25, 59]
    strong = attacked[attacked["method"].str.endswith("@0.1")].dropna(subset="map_at_r_difference")
    by = changed(strong, "map_at_r_difference")
    yield by["at+stax@0.1"], 5
    yield by["bgaugment+mtax:5@0.1"] < 0, True


def attacks_cub50() -> Pairs:
    rows = gains("attacks_cub50")
    own = {"bgaugment": 2.1, "at_strong": 0.9, "mdprop_2": 1.4, "mdprop_2_strong": 1.5}
    yield changed(rows, "corrupted_difference", digits=1), own
    for difference in ("relative_drop_change", "clean_difference", "ref_gain"):
        yield changed(rows, difference), {}
    every = table("attacks_cub50", "table9")
    attacked = every[every["method"].str.contains("@")]
    yield (attacked.loc[attacked["method"].str.endswith("@0.1"), "map_at_r"] < 1).all(), True
    yield changed(attacked, "map_at_r_difference"), {}


def negatives() -> Pairs:
    rows = gains("negatives")
    yield changed(rows, "corrupted_difference"), {"bgaugment": 36}
    costs = {"bgaugment": -13.5, "patch_ns": -14, "texture_ns": -8, "bgneg": -24, "bgneg_rect": -27}
    yield changed(rows, "clean_difference", digits=1), pytest.approx(costs, abs=0.5)
    drops = changed(rows, "relative_drop_change")
    yield (drops.pop("bgaugment"), drops), (-56, {"bgneg": -25, "bgneg_rect": -27})
    yield changed(rows[rows["method"] != "bgaugment"], "ref_gain", digits=2), {}
    added = gains("negatives", added=True).dropna(subset="corrupted_over_bgaugment")
    yield changed(added, "corrupted_over_bgaugment"), {"bgneg+bgaugment": -12}


def public_models() -> Pairs:
    sort, birds = "MobileNetV2 (deep-sort)", "MobileNetV2 iNat birds"
    for place, collection in enumerate(COLLECTIONS[1:]):
        yield published(collection).index[place], sort
        yield against_others(sort, collection)[1:], (0, 7)
    yield [list(published(c).index).index(birds) for c in COLLECTIONS], [0, 12, 12]
    yield against_others(birds, "birds"), (13, 0, 0)
    every = pd.concat(published(c) for c in COLLECTIONS)
    yield (len(every), (every["drop_low"] > 0).all()), (42, True)
    yield ends(100 * every["drop"]), [13, 81]
    yield (every["pasting"].abs() < 0.02).all(), True
    yield significant(table("public_models", "groceries_pairs"), "drop").any(), False


def cures() -> Pairs:
    added = gains(*COMPARED, added=True).dropna(subset="corrupted_over_bgaugment")
    better = added["corrupted_over_bgaugment"] > 0
    yield (better & significant(added, "corrupted_over_bgaugment")).any(), False
    alone, by = gains(*COMPARED), ["grid", "method", "loss"]
    gained = changed(alone, "corrupted_difference", by)
    # What the pages of these grids say of it is looked up there; this page adds where it does not gain.
    of = {grid: [more for key, more in gained.items() if key[:2] == (grid, "bgneg")] for grid in COMPARED}
    yield [grid for grid, points in of.items() if points], ["papers"]
    yield [more for key, more in gained.items() if key[1] == "texture_ns"], [-20]
    families = alone[alone["method"].str.match("sam_|dcml|s2sd|patch|texture")]
    yield max(changed(families, "corrupted_difference", by).values()) < 0, True
    costs = changed(alone, "clean_difference", by, 1)
    yield min(more for (_, method, _), more in costs.items() if method == "bgaugment"), -13.5


@pytest.mark.parametrize("page", SENTENCES)
def test_a_page_says_what_tables_hold(page: str) -> None:
    text = " ".join((RESULTS / page).read_text(encoding="utf-8").split())
    assert [sentence for sentence in SENTENCES[page] if sentence not in text] == []
    for found, said in globals()[Path(page).stem]():
        assert found == said
