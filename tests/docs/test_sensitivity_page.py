"""What masks do to the drop: what the table holds, and the table that is not there."""

from __future__ import annotations

import runpy
from pathlib import Path

import pandas as pd
import pytest

ROOT = Path(__file__).resolve().parents[2]
script = runpy.run_path(str(ROOT / "docs/sensitivity/__main__.py"), run_name="sensitivity")


def test_a_part_that_is_not_there_is_named() -> None:
    with pytest.raises(SystemExit, match=r"There is nothing called fish; there are: toys, birds."):
        list(script["made"](["fish"]))


def test_pasting_costs_more_the_worse_the_masks_are() -> None:
    """Of true masks, with others grown or eroded from them: what was found, and no later table may say otherwise unnoticed."""
    table = pd.read_csv(ROOT / script["TABLE"])
    for _, own in table.groupby(["dataset", "method"]):
        pasting = own.set_index("masks")["pasting"]
        worst = max(pasting["true, 5 px larger"], pasting["true, 5 px smaller"])
        assert abs(pasting["true"]) < 2
        assert worst > pasting["true"]
