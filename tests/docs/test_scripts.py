"""What scripts of docs/ made of the project, and what pages say of it: rows are found again, words hold, tables have them."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from bgbias.backgrounds import foregrounds
from bgbias.report.queries import UNSURE
from bgbias.study import params
from bgbias.training.settings import Train

ROOT = Path(__file__).resolve().parents[2]


def script(name: str) -> dict[str, Any]:
    """What a script of docs/ defines; it makes nothing."""
    return runpy.run_path(str(ROOT / "docs" / name), run_name="script")


def test_clarity_ranks_wrong_masks_and_its_sentences_hold() -> None:
    table = pd.read_csv(ROOT / "docs/results/mask_clarity.csv")
    wrong, unclear = table["iou"] < 0.7, table["clarity"] < UNSURE
    assert (unclear & wrong).sum() > unclear.sum() / 2  # most unclear masks are wrong
    assert 0.3 < (wrong & ~unclear).sum() / wrong.sum() < 0.5  # 7 of 18 of the wrong ones are clear
    assert (table["confidence"] >= 0.9).all()  # which tells none of them
    shown = script("results/mask_clarity.py")["tables"]()["table"]
    assert f"clarity below {UNSURE}" in shown
    assert "object on another background" in shown


@pytest.mark.parametrize("grid", ["cub50", "grocery"])
def test_the_grids_train_with_what_was_chosen(grid: str) -> None:
    searched = script("settings/__main__.py")
    train = params.load(ROOT / "params.yaml", grid).train.model_dump()
    chosen = searched["SHORT"] | searched["RATES"] | searched["CANDIDATES"][searched["CHOSEN"]]
    assert Train.model_validate(train | chosen).model_dump() == train


def test_backgrounds_were_judged_by_the_rule_of_now() -> None:
    proposed = script("results/backgrounds_from_proposal.py")
    judged = pd.read_csv(ROOT / proposed["ROWS"])
    seen = judged[["confidence", "area", "sharpness", "border"]].itertuples(index=False)
    assert [not foregrounds.Foreground(*values).obvious for values in seen] == judged["kept"].tolist()
