"""An audit of a study's own model on the study's own photos gives the study's numbers, to the last digit."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest
from commands import bgbias
from project import Project

MODEL = "toy_smoke/tiny/contrastive/plain/seed0"


def test_an_audit_and_the_workflow_say_the_same(smoke_run: Project, tmp_path: Path) -> None:
    data = smoke_run.folder / "data"
    model = data / "runs/smoke/models" / MODEL / "model.safetensors"
    # Elsewhere: somebody else's model may not be written to.
    mine = Path(shutil.copy(model, tmp_path / "model.safetensors"))
    pool = next((data / "work/backgrounds").rglob("test.zip"))
    scores = pd.read_csv(next((data / "runs/smoke/scores" / MODEL).glob("scores.csv")))
    draws = scores.loc[scores["condition"] == "random_background", "draw"].nunique()
    asked = ("--backgrounds", str(pool), "--draws", str(draws), "--sample", "0", "--attribution", "0")
    words = ("toy_smoke", "--model", str(mine), *asked, "--out", str(tmp_path / "audit"))
    done = bgbias(smoke_run.folder, "audit", *words, BGBIAS_CACHE=str(tmp_path / "cache"))
    assert done.returncode == 0, done.stderr
    told = json.loads((tmp_path / "audit/audit.json").read_text())
    expected = scores.groupby(["setting", "condition", "metric"])["value"].mean()
    found = {(r["setting"], r["condition"], r["metric"]): r["value"] for r in told["levels"]}
    compared = 0
    for (setting, condition, metric), value in expected.items():
        for said in ("query", "symmetric") if condition == "clean" else (setting,):
            assert found[said, condition, metric] == pytest.approx(value, abs=1e-12), (
                said,
                condition,
                metric,
            )
            compared += 1
    assert compared > 20
