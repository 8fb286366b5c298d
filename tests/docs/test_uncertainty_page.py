"""The evidence for intervals: what its tables hold, and how they are shown."""

from __future__ import annotations

import runpy
from pathlib import Path

import pandas as pd

from bgbias.results.uncertainty import FEWEST_HARD, STARRED_CLASSES, STARRED_SEEDS

ROOT = Path(__file__).resolve().parents[2]
evidence = runpy.run_path(str(ROOT / "docs/uncertainty/__main__.py"), run_name="evidence")


def test_what_was_found_is_what_is_promised() -> None:
    """The tables themselves: a later simulation that found otherwise may not be put there unnoticed."""
    found = {name: pd.read_csv(ROOT / f"docs/uncertainty/{name}.csv") for name in evidence["NAMES"]}
    coverage = found["coverage"]
    of_models, of_methods = coverage[coverage["seeds"] == 1], coverage[coverage["seeds"] > 1]
    for rows in (of_models, of_methods):
        # A share of 1,000 has an error of .007 at 95 %: one in twenty at most is outside, and none by three errors.
        for names, low, high in (
            (["mean covered", "drop covered"], 0.92, 0.97),
            (["difference starred", "change starred"], 0.03, 0.07),
        ):
            shares = rows[names].stack()
            assert shares.between(low - 0.011, high + 0.017).all(), names
            assert shares.between(low, high).mean() >= 0.95, names
            assert low + 0.01 <= shares.mean() <= high - 0.01, names
    # Shares that lay outside of it, in ten times as many other studies.
    again = found["again"]
    assert again[[*evidence["COVERED"]]].stack().between(0.92, 0.97).all()
    starred = again[[*evidence["STARRED"]]]
    assert starred.stack().between(0.025, 0.07).all()
    rare = again[(starred < 0.03).any(axis=1)]
    # There the captions say so.
    assert (rare["classes"] < STARRED_CLASSES).all()
    assert (rare["seeds"] < STARRED_SEEDS).all()
    used = found["ways"][found["ways"]["way"] == "as used here"]["covered"]
    assert used.between(0.92, 0.97).all()
    assert found["sizes"][found["sizes"]["way"] == "as used here"]["covered"].between(0.94, 0.97).all()
    levels = found["levels"]
    assert levels["difference starred"].max() <= 0.07
    # Of few classes whose levels are far from a bell the page says that less is held.
    many = levels["classes"] >= 25
    held = levels.loc[(levels["law"] == "one hump") | many, ["mean covered", "drop covered"]]
    assert held.stack().between(0.92, 0.97).all()
    assert levels[["mean covered", "drop covered"]].min().min() >= 0.8
    assert levels["difference starred"].min() >= 0.015
    assert found["halves"]["sd"].between(0.9, 1.1).all()
    repeats = found["repeats"]
    assert repeats["pairs"].min() >= 20
    assert repeats["starred"].sum() / repeats["pairs"].sum() <= 0.05


def test_what_captions_say_of_skewed_effects_is_what_was_found() -> None:
    """Too narrow with few hard classes, right with many; and no other way is better everywhere."""
    found = pd.read_csv(ROOT / "docs/uncertainty/skewed.csv")
    one = found[found["seeds"] == 1]
    hard = one[one["kind"] == "one in twelve hard"]
    is_few = hard["classes"] / 12 < FEWEST_HARD / 3
    assert hard.loc[is_few, "as used here"].max() < 0.92
    assert hard.loc[hard["classes"] / 12 >= FEWEST_HARD, "as used here"].between(0.92, 0.97).all()
    harmed = one[one["kind"] == "8 % of classes harmed"]
    assert harmed.loc[0.08 * harmed["classes"] < FEWEST_HARD, "as used here"].min() > 0.07
    assert harmed.loc[0.08 * harmed["classes"] >= FEWEST_HARD, "as used here"].max() <= 0.07
    true = one[(one["kind"] == "a true one, 3 errors") & (one["classes"] == 5)].iloc[0]
    assert true["Student's or Hall's"] < true["as used here"] - 0.1
    poor = one[(one["kind"] == "clean MAP@R of 5 %") & (one["number"] == "difference starred")]
    for way in ("Johnson", "Hall", "bootstrap-t"):
        assert poor[way].max() > 0.1, way
    uneven = one[(one["kind"] == "logistic, unequal sizes") & (one["number"] == "difference starred")]
    for way in ("bootstrap-t", "wild bootstrap", "sign flips"):
        assert uneven[way].max() > 0.08, way
