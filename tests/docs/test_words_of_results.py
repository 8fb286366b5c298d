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

from bgbias.backgrounds.foregrounds import LONGEST_BORDER
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


def columns_of_p(rows: pd.DataFrame) -> list[str]:
    """The columns of a corrected p that has values."""
    return [c for c in rows if str(c).endswith("_p_holm") and rows[c].notna().any()]


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


def cured(grid: str, cure: str, gain: int, cost: int) -> Pairs:
    rows = table(grid, "table7")
    yield tuple(changed(rows, f"{of}_gain").get(cure) for of in ("corrupted", "clean")), (gain, cost)


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
    for grid, is_significant in (("grocery", False), ("controls_grocery", True)):
        row = gains(grid).query("method == 'bgaugment' and loss == 'contrastive'")
        yield row["clean_difference"].round().tolist(), [-4]
        yield significant(row, "clean_difference").tolist(), [is_significant]
    yield row["clean_difference_p_holm"].round(2).tolist(), [0.03]


def controls() -> Pairs:
    masks = pd.read_csv(ROOT / "docs/sensitivity/controls.csv")
    above = masks[masks["pasting_low"] > 0].groupby("masks").size()
    yield [above[f"true, {missing} px smaller"] for missing in (5, 3, 1)], [4, 4, 2]
    yield from pasted("controls", 61.8, 0.4)
    rows = table("controls", "table7").set_index(["dataset", "method"])["query_corrupted"]
    gained = {
        (name, method): round(rows[name, f"{method}+grey"] - rows[name, method])
        for name in ("demo_00", "demo_50", "demo_90")
        for method in ("plain", "bgaugment")
    }
    yield gained.pop(("demo_90", "plain")), 8
    yield set(gained.values()) <= {-1, -2, -3, -4}, True


def pretrained() -> Pairs:
    trained = table("pretrained", "table13").query("loss != 'none'")
    columns = [column for column in trained if str(column).endswith("_p_holm")]
    yield len(columns), 8
    yield (trained[columns] >= SIGNIFICANT).all(axis=None), True
    plain = trained[trained["method"] == "plain"].set_index("backbone")
    reach = plain[["relative_drop_change_low", "relative_drop_change_high"]].abs().max(axis=1)
    yield (reach > 10).all(), True
    yield reach[reach > 20].index.tolist(), ["tiny_moco_patches"]
    every, named, levels = (
        table("pretrained", name).query("method == 'pretrained'") for name in ("table13", "table12", "table3")
    )
    for column, points in {
        "corrupted_difference": {"tiny_moco": 20, "tiny_byol": 20, "tiny_moco_patches": -21},
        "clean_difference": {"tiny_moco": 17, "tiny_moco_patches": -36, "tiny_moco_bgneg": -34},
        "linear_corrupted_gain": {
            **{"tiny_moco": 29, "tiny_moco_patches": -31, "tiny_moco_bgneg": 21, "tiny_byol": 31}
        },
    }.items():
        yield changed(every, column, "backbone"), points
    lower = every[every["backbone"].isin(["tiny_moco", "tiny_byol", "tiny_moco_bgneg"])]
    yield (lower["relative_drop_change"] < 0).all(), True
    yield len(changed(lower, "relative_drop_change", "backbone")), 3
    yield set(changed(lower, "ref_gain", "backbone")), {"tiny_moco", "tiny_moco_bgneg"}
    changes = every.set_index("backbone")
    byol = changes.loc["tiny_byol", ["corrupted_difference_p_holm", "relative_drop_change_p_holm"]]
    yield byol.astype(float).round(2).tolist(), [0.03, 0.03]
    nearest = [changed(lower, f"nearest_{of}_gain", "backbone").keys() for of in ("corrupted", "clean")]
    yield (nearest[0] & nearest[1]) & {"tiny_moco", "tiny_byol"}, {"tiny_moco"}
    same = changes.loc["tiny_byol_patches", [c for c in changes if str(c).endswith("_p_holm")]]
    yield (same >= SIGNIFICANT).all(), True
    linear = named.set_index("backbone")["linear_corrupted"].round()
    yield linear[["tiny_moco", "tiny_batch_norm"]].tolist(), [56, 27]
    drops = levels.set_index("backbone")["relative_drop"].round()
    yield drops[["tiny_moco", "tiny_moco_bgneg"]].tolist(), [64, 24]
    rows = gains("pretrained").query("method == 'bgaugment'")
    yield len(changed(rows, "corrupted_difference", "backbone")), 6
    yield (len(rows), ends(rows["corrupted_difference"])), (6, [35, 44])
    yield changed(rows, "clean_difference", "backbone"), {"tiny_moco": -8, "tiny_moco_patches": -6}
    yield (rows["clean_difference_p_holm"] * len(rows) >= SIGNIFICANT).all(), True


def index() -> Pairs:
    real = pd.concat([table(grid, "table3") for grid in ("cub50", "grocery")])
    yield ends(real.loc[real["method"] == "plain", "relative_drop"]), [33, 48]
    own = real[real["method"] == "bgaugment"]
    gained = changed(own, "corrupted_difference", ["dataset", "loss"], 1)
    yield (len(gained), min(gained.values()), max(gained.values())), (4, 2.3, 6.6)
    yield changed(own, "clean_difference", ["dataset", "loss"], 1), {("grocery", "arcface"): -3.0}
    again = table("controls_grocery", "table1")
    yield changed(again, "clean_difference", digits=1)["bgaugment"], -4.0
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
    yield changed(rows, "clean_difference", by), {("bgneg", "triplet"): -11, ("patch_ns", "cosface"): -11}
    patches = rows[(rows["method"] == "patch_ns") & (rows["relative_drop_change"] < 0)]
    yield patches["loss"].tolist(), ["cosface"]


def papers_cub50() -> Pairs:
    for rows, points in ((gains("papers_cub50", "attacks_cub50"), 2.1), (gains("rivals_cub50"), 3.0)):
        best = rows[rows["method"] == "bgaugment"]
        yield set(changed(best, "corrupted_difference", "grid", 1).values()), {points}
        yield significant(best, "corrupted_difference").all(), True
        yield changed(best, "clean_difference"), {}
        yield best["corrupted_difference"].min() >= rows["corrupted_difference"].max(), True
    new = gains("papers_cub50")
    yield changed(new, "relative_drop_change"), {}
    for difference in ("corrupted_difference", "clean_difference"):
        own = changed(new, difference)
        yield own["patch_ns"] < 0, True
        yield own.keys() & {"bgneg", "st_unfrozen"}, set()
    yield round(new.set_index("method").loc["st_unfrozen", "corrupted_difference"], 1), 0.9
    attacked = gains("attacks_cub50").query("method != 'bgaugment'")
    own = {"at_strong": 0.9, "mdprop_2": 1.4, "mdprop_2_strong": 1.5}
    yield changed(attacked, "corrupted_difference", digits=1), own
    yield len(attacked), 3


def rivals_cub50() -> Pairs:
    rows = gains("rivals_cub50").set_index("method")
    columns = columns_of_p(rows)
    expected = {"corrupted_difference_p_holm", "relative_drop_change_p_holm"}
    yield {*expected, "ref_gain_p_holm"} <= set(columns), True
    yield (rows.drop("bgaugment")[columns] >= SIGNIFICANT).all(axis=None), True
    yield {c for c in columns if rows.loc["bgaugment", c] < SIGNIFICANT}, expected


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
    for name in ("table3", "table4"):
        every = table("rivals", name)
        rows = every[every["method"].str.startswith("sam_")]
        yield len(rows), 4
        differences = [
            p.removesuffix("_p_holm") for p in columns_of_p(rows) if not p.startswith("relative_drop")
        ]
        yield any((significant(rows, d) & (rows[d] > 0)).any() for d in differences), False
    added = gains("rivals", added=True)
    added = added[added["method"].isin(["attr_frac+bgaugment", "dcml_code+bgaugment"])]
    over = [column for column in added if "_over_bgaugment_p" in str(column)]
    yield (added[over].stack() >= SIGNIFICANT).all(), True
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
    trained = {f"{method}+stax@0.1" for method in ("at", "at_strong", "mdprop_2_strong")}
    trained |= {f"{method}+mtax:5@0.1" for method in ("at_strong", "mdprop_2_strong")}
    yield {method for method, points in by.items() if points > 0}, trained
    yield by["at+stax@0.1"], 5
    yield by["bgaugment+mtax:5@0.1"] < 0, True


def attacks_cub50() -> Pairs:
    rows = gains("attacks_cub50")
    p = rows.set_index("method")["corrupted_difference_p_holm"].round(2)
    yield p.to_dict(), {"bgaugment": 0.03, "at_strong": 0.03, "mdprop_2": 0.03, "mdprop_2_strong": 0.02}
    for difference in ("relative_drop_change", "clean_difference", "ref_gain"):
        yield changed(rows, difference), {}
    every = table("attacks_cub50", "table9")
    attacked = every[every["method"].str.contains("@")]
    yield (attacked.loc[attacked["method"].str.endswith("@0.1"), "map_at_r"] < 1).all(), True
    yield changed(attacked, "map_at_r_difference"), {}
    plain = every.set_index("method")["map_at_r"]
    yield plain["plain+stax@0.01"] / plain["plain"], pytest.approx(0.5, abs=0.02)


def negatives() -> Pairs:
    rows = gains("negatives")
    yield changed(rows, "corrupted_difference"), {"bgaugment": 36}
    costs = {"bgaugment": -13.5, "patch_ns": -14, "texture_ns": -8, "bgneg": -24, "bgneg_rect": -27}
    yield changed(rows, "clean_difference", digits=1), pytest.approx(costs, abs=0.5)
    own = rows.set_index("method").loc["bgaugment"]
    yield own["clean_difference"], pytest.approx(-13.5, abs=0.05)
    yield round(own["clean_difference_p_holm"], 2), 0.02
    drops = changed(rows, "relative_drop_change")
    yield (drops.pop("bgaugment"), drops), (-56, {"bgneg": -25, "bgneg_rect": -27})
    p = rows.set_index("method").loc[["bgneg", "bgneg_rect"], "relative_drop_change_p_holm"]
    yield p.round(3).tolist(), pytest.approx([0.04, 0.046], abs=0.005)
    yield changed(rows[rows["method"] != "bgaugment"], "ref_gain", digits=2), {}
    added = gains("negatives", added=True).dropna(subset="corrupted_over_bgaugment")
    yield len(added), 2
    yield changed(added, "corrupted_over_bgaugment"), {"bgneg+bgaugment": -12}
    rows = gains("papers", added=True).query("loss == 'contrastive'")
    own = changed(rows, "corrupted_difference")
    yield (own["bgneg"], own["texture_ns"]), (14, -20)
    yield {"patch_ns+bgaugment", "bgneg+bgaugment"} <= set(rows["method"]), True
    yield changed(rows, "corrupted_over_bgaugment"), {}


def shape_texture() -> Pairs:
    looks, clean, change = (
        table("shape_texture", name).query("method == 'pretrained'").set_index("backbone")
        for name in ("table14", "table1", "table13")
    )
    patches = ["tiny_moco_patches", "tiny_moco_patches_3"]
    yield looks.loc[["tiny_moco", *patches], "texture"].round().tolist(), [30, 10, 10]
    yield (looks.loc[patches, "shape_low"] < looks.loc[patches, "chance"]).all(), True
    yield (looks.loc[patches, "texture_high"] < looks.loc["tiny_moco", "texture_low"]).all(), True
    yield (looks.loc[patches, "shape_low"] < looks.loc["tiny_moco", "shape_high"]).all(), True
    numbers = looks.loc[patches[0], ["shape", "shape_low", "shape_high", "chance"]]
    yield numbers.astype(float).round(1).tolist(), [7.0, 0.0, 14.0, 6.0]
    yield looks["shape_share"].round()[["tiny_moco", patches[0]]].tolist(), [13, 41]
    yield clean["clean"].round()[[patches[0], "tiny_batch_norm"]].tolist(), [41, 60]
    costs, drops, gained = (
        changed(change.reset_index(), column, "backbone")
        for column in ("clean_difference", "relative_drop_change", "corrupted_difference")
    )
    yield [costs[name] for name in patches], [-36, -56]
    yield [costs[name] for name in ("tiny_moco_patches_1", "tiny_moco_bgneg")], [-4, -34]
    yield [drops[name] for name in ("tiny_moco_patches_1", "tiny_moco_bgneg")], [-4, -40]
    yield "tiny_moco_bgneg" in gained, False


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
    parts = every[["pasting", "own_background", "class_background"]]
    yield (parts.idxmax(axis=1) == "class_background").mean() > 0.9, True
    yield significant(table("public_models", "groceries_pairs"), "drop").any(), False
    both = pd.concat([published("birds")["drop"], published("birds_isnet")["drop"]], axis=1).dropna()
    yield len(both), 8
    yield (100 * both.diff(axis=1).iloc[:, 1].abs()).max() < 1.1, True
    yield (both.rank().diff(axis=1).iloc[:, 1] == 0).all(), True


def controls_cub50() -> Pairs:
    yield from pasted("controls_cub50", 9.4, 0.5)
    yield from cured("cures_cub50", "plain+grey", 5, -4)


def controls_grocery() -> Pairs:
    yield from pasted("controls_grocery", 27.8, 0.7)
    yield changed(table("controls_grocery", "table10"), "drop_more")["plain"], 14
    yield from cured("controls_grocery", "plain+grey", 9, -15)
    yield from cured("controls_grocery", "plain+object_pooling", 5, -4)


def masker_finetuning() -> Pairs:
    folds, shares = (pd.read_csv(RESULTS / f"masker_{name}.csv") for name in ("folds", "shares"))
    yield (len(folds), folds["fold"].nunique()), (30, 4)
    yield (folds["blend"] == 0).all(), True
    yield (shares["change"] < 2 * shares["error"]).all(), True
    yield (shares.groupby("blend")["change"].idxmax().map(shares["group"]) == "sop").all(), True
    products = shares[shares["group"] == "sop"].sort_values("blend")
    yield products["change"].is_monotonic_increasing, True
    yield folds.groupby("group")["before"].mean().idxmin(), "sop"
    worst = folds.loc[folds["before"].idxmin()]
    yield (worst["photo"], f"{worst['before']:.3f}"), ("sop/10120", "0.045")


def backgrounds() -> Pairs:
    every = pd.read_csv(RESULTS / "backgrounds.csv")
    missed = every[every["kept"] & ~every["shows"].isin(["test", "val"])]
    wide = missed["border"] > LONGEST_BORDER
    yield (len(missed), wide.sum()), (9, 2)
    yield (missed.loc[~wide, "sharpness"] < 0.5).all(), True
    of = every.groupby("shows")["kept"].agg(["size", "sum"])
    rejected = {"birds": 37, "cars": 10, "groceries": 20, "online": 9, "test": 17, "val": 15}
    yield (of["size"] - of["sum"]).to_dict(), rejected
    yield of["size"].drop(["test", "val"]).sum(), 85


def cures() -> Pairs:
    added = gains(*COMPARED, added=True).dropna(subset="corrupted_over_bgaugment")
    yield set(added["grid"]), {"papers", "rivals", "negatives", "attacks"}
    better = added["corrupted_over_bgaugment"] > 0
    yield (better & significant(added, "corrupted_over_bgaugment")).any(), False
    alone, by = gains(*COMPARED), ["grid", "method", "loss"]
    gained = changed(alone, "corrupted_difference", by)
    # What the pages of these grids say of it is looked up there; this page adds where it does not gain.
    of = {grid: [more for key, more in gained.items() if key[:2] == (grid, "bgneg")] for grid in COMPARED}
    yield [grid for grid, points in of.items() if points], ["papers"]
    yield (len(of["papers"]), (alone[alone["grid"] == "papers"]["method"] == "bgneg").sum()), (3, 4)
    yield gained["papers_cub50", "patch_ns", alone.query("grid == 'papers_cub50'")["loss"].iloc[0]], -2
    yield [more for key, more in gained.items() if key[1] == "texture_ns"], [-20]
    families = alone[alone["method"].str.match("sam_|dcml|s2sd|patch|texture")]
    yield max(changed(families, "corrupted_difference", by).values()) < 0, True
    costs = changed(alone, "clean_difference", by, 1)
    yield [round(more) for key, more in costs.items() if key[:2] == ("negatives", "bgneg")], [-24]
    yield min(more for (_, method, _), more in costs.items() if method == "bgaugment"), -13.5


@pytest.mark.parametrize("page", SENTENCES)
def test_a_page_says_what_tables_hold(page: str) -> None:
    text = " ".join((RESULTS / page).read_text(encoding="utf-8").split())
    assert [sentence for sentence in SENTENCES[page] if sentence not in text] == []
    for found, said in globals()[Path(page).stem]():
        assert found == said
