"""What masks do to the drop: the page has what its tables hold, and says so when it has not."""

from __future__ import annotations

import runpy
from pathlib import Path

import pandas as pd
import pytest

ROOT = Path(__file__).resolve().parents[2]
script = runpy.run_path(str(ROOT / "docs/sensitivity/__main__.py"), run_name="sensitivity")


def test_the_page_has_what_the_tables_hold(capsys: pytest.CaptureFixture[str]) -> None:
    assert script["main"](["--check"]) == 0
    assert script["main"](["fish"]) == 2
    assert "There is nothing called fish; there are: toys, birds." in capsys.readouterr().out


@pytest.mark.parametrize("part", ["sensitivity", "maskers"])
def test_another_number_is_another_page(part: str) -> None:
    text = script["PAGE"].read_text(encoding="utf-8")
    before, mark, after = text.partition(f"<!-- {part} -->\n")
    assert mark
    edited = before + mark + after.replace("0", "9", 1)
    assert edited != text
    assert script["page"](edited) == text


def test_pasting_costs_more_the_worse_the_masks_are() -> None:
    """Of true masks, with others grown or eroded from them: what was found, and no later table may say otherwise unnoticed."""
    table = pd.read_csv(script["TABLE"])
    for _, own in table.groupby(["dataset", "method"]):
        pasting = own.set_index("masks")["pasting"]
        worst = max(pasting["true, 5 px larger"], pasting["true, 5 px smaller"])
        assert abs(pasting["true"]) < 2
        assert worst > pasting["true"]
