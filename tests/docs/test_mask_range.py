"""What documents say of the range that perfect masks lie in is what was measured."""

from __future__ import annotations

import runpy

import pandas as pd
from project import ROOT

PAGE = (ROOT / "docs/masks.md").read_text(encoding="utf-8")


def test_the_sentences_about_drawn_masks_hold() -> None:
    script = runpy.run_path(str(ROOT / "docs/results/mask_range.py"))
    photos, shares = (pd.read_csv(ROOT / script[name]) for name in ("PHOTOS", "SHARES"))
    means = photos.groupby(["group", "photo", "mask"])["moved"].mean().unstack()
    inside, beside, of_first, of_extrapolated = 0, [], [], []
    for group in script["SETS"]:
        own = means.loc[group].mean()
        for second in script["SECONDS"]:
            low, high = sorted((own[f"either {second}"], own[f"both {second}"]))
            true = own["drawn"]
            inside += low <= true <= high
            beside.append(max(low / true - 1, 1 - high / true))
            of_first.append(abs(own["u2netp"] / true - 1))
            found = script["extrapolated"](group, second, means.loc[group], shares)
            of_extrapolated.append(abs(found / true - 1))
    assert f"In {inside} of nine cases" in PAGE.replace("\n", " ")
    assert f"at most {100 * max(beside):.0f} % outside it" in PAGE.replace("\n", " ")
    first, extrapolated = (100 * sum(of) / 9 for of in (of_first, of_extrapolated))
    assert f"by {extrapolated:.0f} % in the mean instead of {first:.0f}" in PAGE.replace("\n", " ")


def test_the_sentences_about_toys_hold() -> None:
    script = runpy.run_path(str(ROOT / "docs/results/mask_range.py"))
    toys = pd.read_csv(ROOT / script["TOYS"])
    undrawn = toys[toys["drawn"] == "no"]
    ends = undrawn[["either", "both"]]
    inside = (undrawn["true"] >= ends.min(axis=1)) & (undrawn["true"] <= ends.max(axis=1))
    print(toys)
    assert f"the true drop lies in the range of {inside.sum()} of {len(undrawn)} networks" in PAGE.replace(
        "\n", " "
    )
