"""DVC for real: what it keeps of a run is not made again, here or in a clone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from project import SMOKE, Project
from repository import Repository, finished, ran

pytestmark = pytest.mark.workflow
TABLES = ("table1", "table2", "table3")
STAGES = ("data", "masks", "models", "scores", *TABLES)


@pytest.fixture(scope="module")
def repository(smoke_run: Project, tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """A finished run, kept by DVC."""
    made = finished(smoke_run, tmp_path_factory.mktemp("dvc") / "project")
    made.dvc("remote", "add", "--quiet", "--local", "--default", "beside", "../remote")
    made.dvc("commit", "--quiet", "--force", *STAGES)
    made.git("add", "--all")
    made.git("commit", "--quiet", "-m", "kept")
    made.dvc("push", "--quiet")
    return made


def test_what_snakemake_made_and_dvc_recorded_is_not_made_again(repository: Repository) -> None:
    assert ran(repository.dvc("repro", *TABLES)) == []
    kept = repository.git("ls-files", "data", ".dvc", "dvc.lock").split()
    assert "dvc.lock" in kept
    # Results stay out of git.
    assert {Path(name).parts[:2] for name in kept if name.startswith("data")} == {
        ("data", "backgrounds"),
        ("data", "published"),
        ("data", "weights"),
    }
    # Another grid leaves the first one alone.
    repository.edit("grid: smoke ", "grid: demo ")
    assert "data/report/demo/table1.csv" in repository.dvc("status", "table1")
    repository.git("checkout", "--quiet", "params.yaml")


def test_clone_restores_and_has_nothing_to_do(repository: Repository, tmp_path: Path) -> None:
    clone = repository.clone(tmp_path / "clone")
    clone.dvc("pull", "--quiet", "--allow-missing")
    assert f"train {SMOKE}/plain/seed0" not in clone.bgbias("restore").stdout
    assert clone.planned(*TABLES) == []
    assert ran(clone.dvc("repro", *TABLES)) == []
    # What a remote or a cache spoilt is not blessed, however old it looks.
    model = clone.folder / f"data/runs/smoke/models/{SMOKE}/plain/seed0/model.safetensors"
    model.write_bytes(model.read_bytes()[:-1] + b"x")
    os.utime(model, (1_500_000_000, 1_500_000_000))
    assert "model.safetensors has changed" in clone.bgbias("restore").stdout
    planned = clone.planned(*TABLES)
    assert f"train {SMOKE}/plain/0" in planned
    assert "table table1" in planned
