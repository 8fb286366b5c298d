"""What documents say of fine-tuning a masker is what its nested folds show."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pandas as pd

from bgbias.images import pixels

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


def test_another_maskers_masks_are_measured_by_hand_drawn_ones(tmp_path: Path) -> None:
    (tmp_path / "sop").mkdir()
    truth, found = np.zeros((2, 20, 20), np.uint8)
    truth[:10], found[5:10] = 255, 255
    for name, picture in (("image", np.zeros((20, 20, 3), np.uint8)), ("mask", truth), ("rembg", found)):
        (tmp_path / "sop" / f"7_{name}.png").write_bytes(pixels.encode_png(picture))
    assert script["of_rembg"](tmp_path).to_dict("records") == [{"photo": "sop/7", "group": "sop", "iou": 0.5}]
