"""Sixteen nodes that end at once, and mirrors that start at once, on a store that did not exist a second before."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pretended
import pytest
import yaml
from project import PATIENCE

from bgbias.engine.node import step
from bgbias.evaluation.embeddings import Embeddings
from bgbias.study import params
from bgbias.study.cell import Cell
from bgbias.study.params import Study

ROOT = Path(__file__).resolve().parents[2]
SEEDS = range(16)
MIRRORS = 3


def study(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Study:
    """The smoke grid with sixteen seeds, their embeddings made up."""
    raw = params.read(ROOT / "params.yaml")
    raw["grids"]["smoke"]["cells"][0] |= {"methods": ["plain"], "seeds": list(SEEDS)}
    (folder / "params.yaml").write_text(yaml.safe_dump(raw, sort_keys=False), encoding="utf-8")
    for name in ("backgrounds", "published", "weights"):
        (folder / "data").mkdir(exist_ok=True)
        (folder / "data" / name).symlink_to(ROOT / "data" / name)
    monkeypatch.chdir(folder)
    made = params.load(folder / "params.yaml", "smoke")
    generator = np.random.default_rng(0)
    labels = np.repeat(np.arange(4), 5)
    for seed in SEEDS:
        vectors = generator.normal(size=(3, 20, 8)).astype(np.float32)
        vectors /= np.linalg.norm(vectors, axis=2, keepdims=True)
        where: dict[str, Any] = {
            "dataset": "toy_smoke",
            "backbone": "tiny",
            "loss": "contrastive",
            "method": "plain",
            "seed": seed,
        }
        ids = [f"photo{i}" for i in range(20)]
        names = [("clean", 0), ("random_background", 0), ("random_background", 1)]
        views = dict(zip(names, vectors, strict=True))
        Embeddings(ids, labels, np.ones(20, bool), views).write(made.files.at("embeddings", **where))
        pretended.certify(made, step("embed", cell=Cell(**where)))
    return made


@pytest.mark.slow
def test_nothing_is_lost_and_nothing_is_there_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study(tmp_path, monkeypatch)
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    workflow = subprocess.Popen(["sleep", "36000"])
    end = ["--grid", "smoke", "--params", "params.yaml"]
    track = [sys.executable, "-m", "bgbias", "track", "--follow", str(workflow.pid), *end]
    score = [sys.executable, "-m", "bgbias", "score", "toy_smoke", "tiny", "contrastive", "plain", *end]
    mirrors = [subprocess.Popen(track) for _ in range(MIRRORS)]
    try:
        nodes = [subprocess.Popen([*score, "--seed", str(seed)]) for seed in SEEDS]
        assert [node.wait(timeout=PATIENCE) for node in nodes] == [0] * len(SEEDS)
    finally:
        workflow.kill()
        workflow.wait()
    assert [mirror.wait(timeout=PATIENCE) for mirror in mirrors] == [0] * MIRRORS

    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{tmp_path / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("bgbias-smoke")
    assert experiment is not None
    runs = client.search_runs([experiment.experiment_id])
    assert sorted(int(run.data.params["seed"]) for run in runs) == list(SEEDS)
    assert {run.info.status for run in runs} == {"FINISHED"}
    assert all(0 <= run.data.metrics["map_at_r_clean"] <= 1 for run in runs)
    assert not list(tmp_path.glob("mlflow.db.new*"))
    # And a store made of the records alone holds the same.
    shutil.move(tmp_path / "mlflow.db", tmp_path / "before.db")
    again = subprocess.run([*track[:4], *end], env=os.environ, capture_output=True, text=True, check=True)
    assert again.stdout.startswith("16 runs created, 0 updated, 0 unchanged")
