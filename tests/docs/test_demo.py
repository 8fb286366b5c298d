"""What the tutorial says of the demo in words is what its published seeds show."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

ROOT = Path(__file__).resolve().parents[2]


def test_the_tutorial_says_what_every_seed_shows() -> None:
    seeds = pd.read_csv(ROOT / "docs/results/demo/seeds.csv")
    drops = {
        key: of.sort_values("seed")["relative_drop"].tolist()
        for key, of in seeds.groupby(["dataset", "loss", "method"])
    }
    assert {len(of_seeds) for of_seeds in drops.values()} == {3}
    text = (ROOT / "docs/tutorial.md").read_text(encoding="utf-8")
    assert "in each, BGAugment's drop is less than half of plain's" in text
    plain, cured = (drops["demo_90", "contrastive", training] for training in ("plain", "bgaugment"))
    assert all(less < more / 2 for less, more in zip(cured, plain, strict=True))
    for training in ("plain", "bgaugment"):
        unbiased, half, biased = (drops[f"demo_{n}", "contrastive", training] for n in ("00", "50", "90"))
        assert all(few < some < many for few, some, many in zip(unbiased, half, biased, strict=True))
