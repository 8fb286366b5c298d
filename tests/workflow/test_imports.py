"""A node loads what it uses: what else it would load costs more than many a node's work."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from project import Project
from torch import nn

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
    layers = [nn.Linear(5, 3), nn.Linear(5, 3)]
    layers[1].load_state_dict(layers[0].state_dict())
    kinds = [getattr(optimizers, name), getattr(torch.optim, name)]
    made = [kind(layer.parameters(), lr=0.1) for kind, layer in zip(kinds, layers, strict=True)]
    for step in range(6):
        x = torch.from_numpy(np.random.default_rng(step).standard_normal((4, 5))).float()
        for optimizer, layer in zip(made, layers, strict=True):
            optimizer.zero_grad()
            layer(x).square().mean().backward()
            optimizer.step()
        if step == 2:
            # A state that one has saved is what the other goes on from.
            states = [optimizer.state_dict() for optimizer in made]
            for optimizer, state in zip(made, reversed(states), strict=True):
                optimizer.load_state_dict(state)
        assert torch.equal(layers[0].weight, layers[1].weight)
    assert not layers[0].weight.isnan().any()
