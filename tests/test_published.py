"""The published numbers that our tables set beside our own."""

from __future__ import annotations

import csv
from pathlib import Path

from bgbias.statistics import drop

PUBLISHED = Path(__file__).resolve().parents[1] / "data" / "published" / "kobs2022.csv"


def test_every_cell_of_the_papers_two_tables_is_there_once() -> None:
    with PUBLISHED.open(newline="") as file:
        rows = list(csv.DictReader(file))
    cells = {
        (r["metric"], r["condition"], r["dataset"], r["loss"], r["method"]): float(r["value"]) for r in rows
    }
    # 3 datasets x 5 losses x 2 methods: MAP@R clean and corrupted, and the attribution score.
    assert len(rows) == len(cells) == 90
    assert {r["unit"] for r in rows if r["metric"] == "map_at_r"} == {"percent"}
    # The paper's starkest cell: contrastive on SOP loses nine tenths.
    clean, corrupted = (
        cells["map_at_r", condition, "sop", "contrastive", "plain"]
        for condition in ("clean", "random_background")
    )
    assert round(drop(clean, corrupted).relative, 3) == 0.890
