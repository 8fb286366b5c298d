"""The evidence for intervals: the page has what its tables hold, and says so when it has not."""

from __future__ import annotations

import runpy
from pathlib import Path

import pandas as pd
import pytest

ROOT = Path(__file__).resolve().parents[2]
evidence = runpy.run_path(str(ROOT / "docs/uncertainty/__main__.py"), run_name="evidence")


def test_the_page_has_what_the_tables_hold(capsys: pytest.CaptureFixture[str]) -> None:
    assert evidence["main"](["--check"]) == 0
    assert evidence["main"](["covarage"]) == 2
    assert "There is no table covarage; there are: coverage" in capsys.readouterr().out


def test_another_number_is_another_page() -> None:
    text = evidence["PAGE"].read_text(encoding="utf-8")
    assert text.count("<!-- uncertainty: ") == len(evidence["NAMES"])
    edited = text.replace(
        "| Grocery Store | pooled | clean | 81 |", "| Grocery Store | pooled | clean | 82 |"
    )
    assert edited != text
    assert evidence["page"](edited) == text


def test_what_was_found_is_what_is_promised() -> None:
    """The tables themselves: a later simulation that found otherwise may not be put there unnoticed."""
    found = {name: pd.read_csv(ROOT / f"docs/uncertainty/{name}.csv") for name in evidence["NAMES"]}
    coverage = found["coverage"]
    of_models, of_methods = coverage[coverage["seeds"] == 1], coverage[coverage["seeds"] > 1]
    for rows in (of_models, of_methods):
        for name in ("mean covered", "drop covered"):
            assert 0.92 <= rows[name].mean() <= 0.97
        for name in ("difference starred", "change starred"):
            assert 0.02 <= rows[name].mean() <= 0.07
    assert found["halves"]["sd"].between(0.9, 1.1).all()
    repeats = found["repeats"]
    assert len(repeats) >= 20
    assert repeats["starred"].gt(0).mean() <= 0.2  # of three differences each
