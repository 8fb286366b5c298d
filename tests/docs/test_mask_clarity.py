"""What documents and audits say of clarity is what was measured."""

from __future__ import annotations

import runpy

import pandas as pd
from project import ROOT

from bgbias.report.queries import UNSURE

FOLDER = ROOT / "docs/results"


def test_clarity_ranks_wrong_masks_and_its_sentences_hold() -> None:
    table = pd.read_csv(FOLDER / "mask_clarity.csv")
    wrong, unclear = table["iou"] < 0.7, table["clarity"] < UNSURE
    assert (unclear & wrong).sum() > unclear.sum() / 2  # most unclear masks are wrong
    assert 0.3 < (wrong & ~unclear).sum() / wrong.sum() < 0.5  # 7 of 18 of the wrong ones are clear
    assert (table["confidence"] >= 0.9).all()  # which tells none of them
    shown = runpy.run_path(str(FOLDER / "mask_clarity.py"))["tables"]()["table"]
    assert f"clarity below {UNSURE}" in shown
    assert "object on another background" in shown
