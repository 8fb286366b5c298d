"""What documents say of fine-tuning a masker is what its nested folds show."""

from __future__ import annotations

import runpy
from pathlib import Path

import pandas as pd

ROOT = Path(__file__).resolve().parents[2]
script = runpy.run_path(str(ROOT / "docs/results/masker_from_report.py"))


def test_pages_say_what_the_figures_do() -> None:
    assert script["differing"](ROOT) == [], "run: make docs-masker"


def test_every_number_comes_from_the_figures(tmp_path: Path) -> None:
    for page in script["PAGES"]:
        text = "".join(
            f"<!-- masker {part} -->old .875<!-- end -->" for part in ("table", "sentence", "verdict")
        )
        (tmp_path / page).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / page).write_text(f"before {text} after")
    change = [0.02, 0.03, 0.04, 0.02, 0.03, 0.04]
    folds = pd.DataFrame({"group": ["sop"] * 6, "fold": [0, 0, 1, 1, 2, 2], "blend": 0.5, "before": 0.5})
    folds.assign(change=change, after=folds["before"] + change).to_csv(
        tmp_path / script["HERE"] / "masker_folds.csv"
    )
    shares = pd.DataFrame(
        {"group": ["all"], "blend": [0.5], "change": [0.03], "low": [0.02], "high": [0.04], "chosen": [True]}
    )
    shares.to_csv(tmp_path / script["HERE"] / "masker_shares.csv")
    for page, text in script["wanted"](tmp_path).items():
        assert ".875" not in text
        assert "a gain: +0.030 (95 %: +0.021 to +0.039)" in text
        assert "mean IoU 0.500 published, 0.530 as chosen" in text
        (tmp_path / page).write_text(text)
    assert script["differing"](tmp_path) == []
    shares.assign(chosen=False).to_csv(tmp_path / script["HERE"] / "masker_shares.csv")
    assert script["differing"](tmp_path) == list(script["PAGES"])
    assert "no gain that is more than chance" in script["wanted"](tmp_path)[script["PAGES"][1]]
