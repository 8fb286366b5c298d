"""What documents say of fine-tuning a masker is what its nested folds show."""

from __future__ import annotations

import runpy
from pathlib import Path

import pandas as pd

ROOT = Path(__file__).resolve().parents[2]
script = runpy.run_path(str(ROOT / "docs/results/masker_from_report.py"))
HERE = script["HERE"]


def test_what_words_say_of_the_shares_is_so() -> None:
    shares = pd.read_csv(ROOT / HERE / "masker_shares.csv")
    products = shares[shares["group"] == "sop"].sort_values("blend")
    assert products["change"].is_monotonic_increasing
    assert (products["change"] < 2 * products["error"]).all()


def test_the_tables_are_made_of_the_figures() -> None:
    tables = script["tables"]()
    summary = tables["table"].splitlines()
    assert summary[0].startswith("| set | photos | published | as chosen |")
    assert summary[-1].startswith("| all | 30 | 0.832 | 0.832 | unchanged |")
    assert "| SOP | 0.5 | +0.028 (s.e. 0.019) | no |" in tables["shares"]


def test_a_newer_network_is_not_better_on_every_kind_of_photo() -> None:
    figures = pd.read_csv(ROOT / HERE / "maskers.csv")
    means = figures.pivot_table("iou", "group", "masker")
    assert means.loc["cars196"].idxmax() == "isnet"
    assert (means.loc[["cub200", "sop"]].idxmax(axis=1) == "u2net").all()
    assert figures.groupby("masker").size().eq(30).all()
