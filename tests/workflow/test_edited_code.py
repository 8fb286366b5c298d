"""Whoever edits a formula and runs Snakemake or DVC gets other numbers, and is told why before."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from project import SMOKE, Project
from repository import Repository, finished, jobs, ran

pytestmark = pytest.mark.workflow
LOSS = "src/bgbias/training/losses/contrastive.py"
REWRITTEN = (
    "DISTANCE, **params.model_dump()",
    "DISTANCE, **dict(params.model_dump())",
)
METRIC = "src/bgbias/evaluation/metrics/map_at_r.py"
HALVED = (
    "n.per_relevant((precision * hits).sum(axis=1))",
    "n.per_relevant((precision * hits).sum(axis=1)) / 2",
)


@pytest.fixture
def project(smoke_run: Project, tmp_path: Path) -> Repository:
    """A finished run under git."""
    return finished(smoke_run, tmp_path / "project")


def clean(project: Project) -> pd.Series:
    table = pd.read_csv(project.folder / "data/report/smoke/table1.csv")
    return table.set_index("method")["clean"]


def model(project: Project) -> bytes:
    return (project.folder / f"data/runs/smoke/models/{SMOKE}/plain/seed0/model.safetensors").read_bytes()


def test_an_edit_is_told_accepted_or_made_again(project: Repository) -> None:
    before, trained = clean(project), model(project)
    project.dvc("commit", "--quiet", "--force", "data", "masks", "models", "scores", "table1")

    # What is known to compute the same.
    project.edit(*REWRITTEN, LOSS)
    said = project.bgbias("status", "--check", check=False)
    assert said.returncode == 1
    assert "training/losses/contrastive.py changed" in said.stdout
    trains = [f"train {SMOKE}/{method}/0" for method in ("bgaugment", "plain")]
    assert [job for job in project.planned() if job.startswith("train ")] == trains
    assert f"accepted: train {SMOKE}/plain/seed0" in project.snakemake("--touch")
    assert project.planned() == []
    assert model(project) == trained

    # What does not.
    project.edit(*HALVED, METRIC)
    assert jobs(project.dvc("repro", "table1")) == {"train", "evaluate", "collect", "table"}
    # Validation is halved with it, and picks the same epoch.
    assert model(project)[2000:] == trained[2000:]
    pd.testing.assert_series_equal(clean(project), before / 2)
    path = project.folder / f"data/runs/smoke/models/{SMOKE}/plain/seed0/run.json"
    certified = json.loads(path.read_text())
    assert certified["git_dirty"] is True
    assert "evaluation/metrics/map_at_r.py" in certified["code"]
    assert ran(project.dvc("repro", "table1")) == []
