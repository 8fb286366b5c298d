"""Snakemake on one machine: how many jobs share its GPUs, and how many threads a job really has."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from pretended_gpus import H200, environment
from project import ROOT, SMOKE, Project

from bgbias.engine import records

pytestmark = pytest.mark.workflow
TRAININGS = ("plain", "bgaugment")
PROFILES = sorted(path.parent.name for path in (ROOT / "profiles").glob("*/config.yaml"))


@pytest.fixture
def untrained(smoke_run: Project, tmp_path: Path) -> Project:
    """The grid `smoke` with both models still to be trained, on a machine with two GPUs that only nvidia-smi knows of."""
    made = smoke_run.copy(tmp_path / "project")
    for method in TRAININGS:
        (made.folder / f"data/runs/smoke/models/{SMOKE}/{method}/seed0/run.json").unlink()
    return made


def train(made: Project, *words: str) -> list[str]:
    """Train both models; the GPUs that their logs name."""
    tools = environment(made.folder.parent, "\n".join(H200.format(n=n) for n in range(2)))["PATH"]
    path = os.pathsep.join([tools, made.environment()["PATH"]])
    words = ("snakemake", "--cores", "8", *words, "--config", "grid=smoke", "--", "models")
    # What the terminal says of threads is of no importance.
    made.run(*words, PATH=path, OMP_NUM_THREADS="7")
    logs = [made.folder / f"data/work/logs/smoke/train/{SMOKE}/{m}/seed0.log" for m in TRAININGS]
    return sorted(re.findall(r"runs on GPU . of 2 \((.*)\)", "".join(map(Path.read_text, logs))))


def trained(made: Project) -> list[dict[str, Any]]:
    """The records of both models, the first one first."""
    runs = [made.folder / f"data/runs/smoke/models/{SMOKE}/{m}/seed0/run.json" for m in TRAININGS]
    return sorted(map(records.read, runs), key=lambda record: str(record["started"]))


@pytest.mark.slow
def test_jobs_at_the_same_time_are_on_different_gpus_each_with_the_threads_that_it_was_given(
    untrained: Project,
) -> None:
    gpus = train(untrained, "--resources", "gpu=2", "--set-threads", "train=2")
    assert gpus == ["GPU-0000-aa", "GPU-1111-aa"]
    assert [record["threads"] for record in trained(untrained)] == [2, 2]


@pytest.mark.parametrize("name", PROFILES)
def test_profile_keeps_what_the_default_one_says_of_reruns(name: str) -> None:
    profile, default = (
        yaml.safe_load((ROOT / f"profiles/{n}/config.yaml").read_text(encoding="utf-8"))
        for n in (name, "default")
    )
    # Cores are another machine's, or told by jobs.
    assert profile.items() >= {k: v for k, v in default.items() if k != "cores"}.items()
