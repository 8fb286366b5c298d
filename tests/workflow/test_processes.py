"""Processes: `make test` ends, whatever a test does to the one that runs it; and a node loads what it uses, as what else it would
load costs more than many a node's work.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from project import PATIENCE, ROOT, SMOKE, Project

from bgbias.compute import optimizers

DIES = "def test_ends(): os._exit(1)"
HANGS = "def test_ends(): subprocess.run(['sleep', '9999'])"


@pytest.mark.parametrize(
    ("code", "words"), [(DIES, "crashed while running 'tests/test_1.py::test_ends'"), (HANGS, "in test_ends")]
)
def test_a_process_that_dies_or_hangs_ends_the_run_which_names_its_test(
    tmp_path: Path, code: str, words: str
) -> None:
    (tmp_path / "tests").mkdir()
    for file in ("pyproject.toml", "tests/conftest.py"):
        shutil.copy(ROOT / file, tmp_path / file)
    for number, body in enumerate(("def test_passes(): pass", code, "def test_passes(): pass")):
        text = f"import os, subprocess\n\n{body}\n"
        (tmp_path / f"tests/test_{number}.py").write_text(text, encoding="utf-8")
    paths = os.pathsep.join(str(ROOT / name) for name in ("src", ".", "tests/support"))
    around = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")} | {"PYTHONPATH": paths}
    told = subprocess.run(["make", "--dry-run", "test"], cwd=ROOT, capture_output=True, text=True, check=True)
    line = next(line for line in told.stdout.splitlines() if " pytest " in line)
    command = [sys.executable, "-m", *shlex.split(line.partition(" ")[2])]
    command += ["--numprocesses=2", "-o", "faulthandler_timeout=3"]
    # No pipe, which what is left behind would keep open.
    with (tmp_path / "said.txt").open("w") as out:
        ran = subprocess.run(command, cwd=tmp_path, env=around, stdout=out, stderr=out, timeout=PATIENCE)
    said = (tmp_path / "said.txt").read_text()
    assert ran.returncode != 0
    assert words in said


# Of all nodes: what draws figures, runs workflows or keeps their books, and what torch loads if it is asked for too much.
NEVER = {"dvc", "matplotlib", "mlflow", "sklearn", "snakemake", "sqlalchemy", "timm", "torchvision"}
NEVER |= {"sympy", "torch._dynamo", "triton"}


@pytest.mark.workflow
def test_nodes_load_only_what_they_use(smoke_run: Project, tmp_path: Path) -> None:
    made = smoke_run.copy(tmp_path / "project")
    environment = made.environment(PYTHONPATH=str(made.folder / "src"))
    for node, unused in (("train", set()), ("score", {"torch", "pytorch_metric_learning", "scipy"})):
        # Python itself reports every module that it loads.
        words = ["-X", "importtime", "-m", "bgbias", node, *SMOKE.split("/"), "plain", "--grid", "smoke"]
        done = subprocess.run(
            [sys.executable, *words], cwd=made.folder, env=environment, capture_output=True, text=True
        )
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
