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


def record(project: Project) -> dict[str, object]:
    path = project.folder / f"data/runs/smoke/models/{SMOKE}/plain/seed0/run.json"
    return dict(json.loads(path.read_text()))


def test_an_edited_loss_trains_its_models_again(project: Repository) -> None:
    before, trained = clean(project), model(project)
    project.edit("\n\ndef build(", "\n\n# Not a number of it.\ndef build(", LOSS)
    assert project.planned() == []
    project.edit("margins = params.pos_margin, params.neg_margin", "margins = params.pos_margin, 1.7", LOSS)
    said = project.bgbias("status", "--check", check=False)
    assert said.returncode == 1
    assert "training/losses/contrastive.py changed" in said.stdout
    assert [job for job in project.planned() if job.startswith("train ")] == [
        f"train {SMOKE}/bgaugment/0",
        f"train {SMOKE}/plain/0",
    ]
    project.snakemake("table1")
    assert model(project) != trained
    assert not clean(project).equals(before)
    certified = record(project)
    assert certified["git_dirty"] is True
    assert "training/losses/contrastive.py" in certified["code"]  # type: ignore[operator]


def test_an_edited_metric_makes_new_scores_through_dvc(project: Repository) -> None:
    project.dvc("commit", "--quiet", "--force", "data", "masks", "models", "scores", "table1")
    assert ran(project.dvc("repro", "table1")) == []
    before, trained = clean(project), model(project)
    project.edit('"""(1/R_i) sum', '"""For each query (1/R_i) sum', METRIC)
    # DVC asks, and Snakemake has nothing to do.
    assert jobs(project.dvc("repro", "table1")) == set()
    project.edit(*HALVED, METRIC)
    said = project.dvc("repro", "table1")
    assert jobs(said) == {"train", "evaluate", "collect", "table"}
    # Validation is halved with it, and picks the same epoch.
    assert model(project)[2000:] == trained[2000:]
    pd.testing.assert_series_equal(clean(project), before / 2)
    assert ran(project.dvc("repro", "table1")) == []


def test_what_is_known_to_compute_the_same_is_accepted(project: Repository) -> None:
    trained, table = model(project), (project.folder / "data/report/smoke/table1.csv").read_bytes()
    project.edit(
        "margins = params.pos_margin, params.neg_margin",
        "margins = (params.pos_margin, params.neg_margin + 0)",
        LOSS,
    )
    assert f"train {SMOKE}/plain/0" in project.planned()
    assert "accepted: train toy_smoke/tiny/contrastive/plain/seed0" in project.snakemake("--touch")
    assert project.planned() == []
    assert (model(project), (project.folder / "data/report/smoke/table1.csv").read_bytes()) == (
        trained,
        table,
    )
    assert project.bgbias("status", "--check").returncode == 0
