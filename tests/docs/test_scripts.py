"""What scripts of docs/ made of the project, and what pages say of it: rows are found again, words hold, tables have them."""

from __future__ import annotations

import runpy
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from bgbias.backgrounds import foregrounds
from bgbias.report.queries import UNSURE
from bgbias.study import params
from bgbias.training.settings import Train

ROOT = Path(__file__).resolve().parents[2]
MASKS = " ".join((ROOT / "docs/masks.md").read_text(encoding="utf-8").split())


@cache
def script(name: str) -> dict[str, Any]:
    """What a script of docs/ defines; it makes nothing."""
    return runpy.run_path(str(ROOT / "docs" / name), run_name="script")


def rows(name: str) -> pd.DataFrame:
    return pd.read_csv(ROOT / "docs" / name)


def test_clarity_ranks_wrong_masks_and_its_sentences_hold() -> None:
    table = rows("results/mask_clarity.csv")
    wrong, unclear = table["iou"] < 0.7, table["clarity"] < UNSURE
    assert (unclear & wrong).sum() > unclear.sum() / 2  # most unclear masks are wrong
    assert 0.3 < (wrong & ~unclear).sum() / wrong.sum() < 0.5  # 7 of 18 of the wrong ones are clear
    assert (table["confidence"] >= 0.9).all()  # which tells none of them
    shown = script("results/mask_clarity.py")["tables"]()["table"]
    assert f"clarity below {UNSURE}" in shown
    assert "object on another background" in shown


def test_pasting_costs_more_the_worse_the_masks_are() -> None:
    """Of true masks, with others grown or eroded from them: what was found, and no later table may say otherwise unnoticed."""
    table = pd.read_csv(ROOT / script("sensitivity/__main__.py")["TABLE"])
    for _, own in table.groupby(["dataset", "method"]):
        pasting = own.set_index("masks")["pasting"]
        worst = max(pasting["true, 5 px larger"], pasting["true, 5 px smaller"])
        assert abs(pasting["true"]) < 2
        assert worst > pasting["true"]


@pytest.mark.parametrize("grid", ["cub50", "grocery"])
def test_the_grids_train_with_what_was_chosen(grid: str) -> None:
    searched = script("settings/__main__.py")
    train = params.load(ROOT / "params.yaml", grid).train.model_dump()
    chosen = searched["SHORT"] | searched["RATES"] | searched["CANDIDATES"][searched["CHOSEN"]]
    assert Train.model_validate(train | chosen).model_dump() == train


def test_sentences_about_the_range_that_perfect_masks_lie_in_hold() -> None:
    own_range = script("results/mask_range.py")
    photos, shares = (pd.read_csv(ROOT / own_range[name]) for name in ("PHOTOS", "SHARES"))
    means = photos.groupby(["group", "photo", "mask"])["moved"].mean().unstack()
    inside, beside, of_first, of_extrapolated = 0, [], [], []
    for group in own_range["SETS"]:
        own = means.loc[group].mean()
        for second in own_range["SECONDS"]:
            low, high = sorted((own[f"either {second}"], own[f"both {second}"]))
            true = own["drawn"]
            inside += low <= true <= high
            beside.append(max(low / true - 1, 1 - high / true))
            of_first.append(abs(own["u2netp"] / true - 1))
            found = own_range["extrapolated"](group, second, means.loc[group], shares)
            of_extrapolated.append(abs(found / true - 1))
    assert f"In {inside} of nine cases" in MASKS
    assert f"at most {100 * max(beside):.0f} % outside it" in MASKS
    first, extrapolated = (100 * sum(of) / 9 for of in (of_first, of_extrapolated))
    assert f"by {extrapolated:.0f} % in the mean instead of {first:.0f}" in MASKS
    toys = pd.read_csv(ROOT / own_range["TOYS"]).query("drawn == 'no'")
    ends = toys[["either", "both"]]
    held = toys["true"].between(ends.min(axis=1), ends.max(axis=1))
    assert f"the true drop lies in the range of {held.sum()} of {len(toys)} networks" in MASKS


def test_backgrounds_were_judged_by_the_rule_of_now() -> None:
    proposed = script("results/backgrounds_from_proposal.py")
    judged = pd.read_csv(ROOT / proposed["ROWS"])
    seen = judged[["confidence", "area", "sharpness", "border"]].itertuples(index=False)
    assert [not foregrounds.Foreground(*values).obvious for values in seen] == judged["kept"].tolist()
