"""What documents say of fine-tuning a masker is what its nested folds show."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import numpy as np
import pandas as pd

from bgbias.images import pixels

ROOT = Path(__file__).resolve().parents[2]
script = runpy.run_path(str(ROOT / "docs/results/masker_from_report.py"))
HERE, PAGES, EVIDENCE = script["HERE"], script["PAGES"], script["EVIDENCE"]
DECIMAL = re.compile(r"(?<![\w.])\d*\.\d+")


def test_no_result_stands_outside_the_marks() -> None:
    """The one number with a point is how much a photo has to change to count as better or worse."""
    bare = EVIDENCE.mark.sub("", (ROOT / PAGES[0]).read_text(encoding="utf-8"))
    assert DECIMAL.findall(bare) == [".005"]


def test_what_words_say_of_the_shares_is_so() -> None:
    shares = pd.read_csv(ROOT / HERE / "masker_shares.csv")
    products = shares[shares["group"] == "sop"].sort_values("blend")
    assert products["change"].is_monotonic_increasing
    assert (products["change"] < 2 * products["error"]).all()


def test_every_number_comes_from_the_figures(tmp_path: Path) -> None:
    asides = ("table", "sentence", "verdict", "count", "photos", "folds", "trainings", "lowest", "rembg")
    for page in PAGES:
        text = "".join(f"<!-- masker {part} -->old .875<!-- end -->" for part in asides)
        (tmp_path / page).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / page).write_text(f"before {text} after")
    change = [0.02, 0.03, 0.04, 0.02, 0.03, 0.04]
    folds = pd.DataFrame({"group": ["sop"] * 6, "fold": [0, 0, 1, 1, 2, 2], "blend": 0.5, "before": 0.5})
    folds.insert(0, "photo", [f"sop/{n}" for n in range(6)])
    folds.assign(change=change, after=folds["before"] + change).to_csv(tmp_path / HERE / "masker_folds.csv")
    shares = pd.DataFrame(
        {"group": ["all"], "blend": [0.5], "change": [0.03], "error": [0.01], "chosen": [True]}
    )
    shares.to_csv(tmp_path / HERE / "masker_shares.csv")
    pd.DataFrame({"photo": ["a", "b"], "group": "sop", "iou": [0.7, 0.9]}).to_csv(tmp_path / script["REMBG"])
    for page, text in EVIDENCE.wanted(tmp_path).items():
        assert ".875" not in text
        assert "a gain: +0.030 (s.e. 0.004)" in text
        assert "mean IoU 0.500 published, 0.530 as chosen" in text
        assert ">6 photos with hand-drawn masks, 6 of each<" in text
        assert ">3 outer folds, each with 2<" in text
        assert ">0.500 (sop/0)<" in text
        assert ">0.800 (SOP)<" in text
        (tmp_path / page).write_text(text)
    assert EVIDENCE.differing(tmp_path) == {}
    shares.assign(chosen=False).to_csv(tmp_path / HERE / "masker_shares.csv")
    assert list(EVIDENCE.differing(tmp_path)) == list(PAGES)
    assert "no gain that is more than chance" in EVIDENCE.wanted(tmp_path)[PAGES[1]]


def test_counts_that_differ_are_told_by_their_ends() -> None:
    assert [script["several"](counts) for counts in ([5], [3, 2], [7, 4, 5])] == ["5", "2 or 3", "4 to 7"]


def test_another_maskers_masks_are_measured_by_hand_drawn_ones(tmp_path: Path) -> None:
    (tmp_path / "sop").mkdir()
    truth, found = np.zeros((2, 20, 20), np.uint8)
    truth[:10], found[5:10] = 255, 255
    for name, picture in (("image", np.zeros((20, 20, 3), np.uint8)), ("mask", truth), ("rembg", found)):
        (tmp_path / "sop" / f"7_{name}.png").write_bytes(pixels.encode_png(picture))
    assert script["of_rembg"](tmp_path).to_dict("records") == [{"photo": "sop/7", "group": "sop", "iou": 0.5}]
