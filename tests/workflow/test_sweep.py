"""A sweep through Snakemake: each combination of values is a model, its row says which, and another value is one more."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pytest
from project import fresh

pytestmark = [pytest.mark.slow, pytest.mark.workflow]
SMOKE = ("--config", "grid=smoke")
TABLE = "data/report/smoke/table1.csv"
SWEEP = """      seeds: [0]
      sweep:
        losses: {contrastive: {neg_margin: [0.3, 0.9]}}
        train: {lr: [1.0e-4, 1.0e-3]}
"""


def test_a_sweep_is_planned_run_printed_and_extended(tmp_path: Path) -> None:
    made = fresh(tmp_path / "project")
    made.edit(
        "      - plain\n      - bgaugment\n      seeds:\n      - 0\n    train:\n      max_epochs: 2\n",
        f"      - plain\n{SWEEP}    train:\n      max_epochs: 2\n",
    )
    variants = [
        f"contrastive+neg_margin={margin}+train.lr={lr}" for margin in (0.3, 0.9) for lr in (0.0001, 0.001)
    ]
    trained = [f"train toy_smoke/tiny/{variant}/plain/0" for variant in variants]
    wanted = (TABLE, *SMOKE)
    assert [job for job in made.planned(*wanted) if job.startswith("train")] == trained
    # What a rule runs is what a person may type.
    made.snakemake("data", *SMOKE)
    made.bgbias("train", "toy_smoke", "tiny", variants[0], "plain", "--grid", "smoke")
    assert [job for job in made.planned(*wanted) if job.startswith("train")] == trained[1:]
    made.snakemake(*wanted)
    assert made.planned(*wanted) == []
    assert pd.read_csv(made.folder / TABLE)["loss"].tolist() == variants
    said = (made.folder / TABLE).with_suffix(".md").read_text(encoding="utf-8")
    assert "Contrastive, neg margin 0.9, lr 0.001" in said
    assert "contrastive+neg_margin" not in made.bgbias("status", "--grid", "smoke").stdout
    forecast = made.bgbias("forecast", "--grid", "smoke").stdout
    assert re.search(r"^ *train +4 ", forecast, re.MULTILINE)
    made.edit("neg_margin: [0.3, 0.9]", "neg_margin: [0.3, 0.9, 1.2]")
    again = [job for job in made.planned(*wanted) if job.startswith("train")]
    assert again == [t.replace("=0.3", "=1.2") for t in trained[:2]]
    status = made.bgbias("status", "--grid", "smoke").stdout
    assert "contrastive+neg_margin=1.2+train.lr=0.001" in status
