"""A node loads what it uses: what else it would load costs more than many a node's work."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from project import Project

from bgbias.compute import optimizers

CELL = ("toy_smoke", "tiny", "contrastive", "plain", "--grid", "smoke")
# Of all nodes: what draws figures, runs workflows or keeps their books, and what torch loads if it is asked for too much.
NEVER = {"dvc", "matplotlib", "mlflow", "sklearn", "snakemake", "sqlalchemy", "timm", "torchvision"}
NEVER |= {"sympy", "torch._dynamo", "triton"}


@pytest.mark.workflow
def test_nodes_load_only_what_they_use(smoke_run: Project, tmp_path: Path) -> None:
    made = smoke_run.copy(tmp_path / "project")
    environment = made.environment(PYTHONPATH=str(made.folder / "src"))
    for node, unused in (("train", set()), ("score", {"torch", "pytorch_metric_learning", "scipy"})):
        # Python itself reports every module that it loads.
        words = [sys.executable, "-X", "importtime", "-m", "bgbias", node, *CELL]
        done = subprocess.run(words, cwd=made.folder, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-3000:]
        loaded = set(re.findall(r"^import time: .*\| +(\S+)$", done.stderr, re.MULTILINE))
        assert "numpy" in loaded
        assert (NEVER | unused) & loaded == set(), node


@pytest.mark.parametrize("name", ["Adam", "AdamW", "RMSprop"])
def test_optimizers_without_the_compiler_compute_the_same(name: str) -> None:
    found = []
    for library in (optimizers, torch.optim):
        weight = torch.eye(3, requires_grad=True)
        optimizer = getattr(library, name)([weight], lr=0.1)
        for step in range(6):
            optimizer.zero_grad()
            (weight * (step + 1)).square().mean().backward()
            optimizer.step()
            optimizer.load_state_dict(optimizer.state_dict())
        found.append(weight)
    assert torch.equal(*found)
    assert not torch.equal(found[0], torch.eye(3))
