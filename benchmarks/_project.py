"""Folders that last as long as the process, commands in them as from a terminal, copies of this project, and a smallest study."""

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

PROJECT = Path(__file__).parents[1]
CORES = len(os.sched_getaffinity(0))  # that this process may use
# What a clone of the project has.
PARTS = (
    *("Snakefile", "workflow", "profiles", "params.yaml", "grids", "dvc.yaml", "requirements.lock"),
    *("data/backgrounds", "data/published", "data/weights"),
    *(".dvc/config", ".dvc/.gitignore", ".dvcignore", ".gitignore"),
)

# A study whose steps have next to nothing to do: its first model, the steps of a model, and those before any.
CELL = ("toys", "tiny", "contrastive", "plain")
STEPS = ("train", "embed", "score", "attribute")
BEFORE = (("index", "toys"), ("masks", "toys"), ("backgrounds", "scenes"))
SMALLEST = """
grid: smallest
datasets:
  toys:
    kind: toy
    masker: ground_truth
    backgrounds: scenes
    options: {size: 32, train_classes: 2, val_classes: 2, test_classes: 2, photos_per_class: 4}
maskers: {ground_truth: {kind: ground_truth}}
backgrounds: {scenes: {train: {toy_scenes: 2}, val: {toy_scenes: 2}, test: {toy_scenes: 2}}}
backbones: {tiny: {}}
losses: {contrastive: {default: {pos_margin: 0.0, neg_margin: 0.5}}}
train: {batch_size: 8, iterations_per_epoch: 1, max_epochs: 1, embedding_dim: 8, freeze_batch_norm: false}
evaluation: {draws: 1}
attribution: {images: 1, samples: 1}
"""


def scratch_folder() -> Path:
    """A new folder, deleted when the process ends; one that is killed leaves it to the system."""
    folder = Path(tempfile.mkdtemp(prefix="bgbias-bench-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def copy_project() -> Path:
    """A new folder with what a clone of the project has; the package itself is a link."""
    folder = scratch_folder()
    for part in PARTS:
        source, target = PROJECT / part, folder / part
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target)
        else:
            shutil.copy2(source, target)
    (folder / "src").symlink_to(PROJECT / "src")
    return folder


def write_smallest(
    folder: Path, seeds: int = 1, methods: Sequence[str] = ("plain", "bgaugment"), **changed: Any
) -> Path:
    """The smallest study's params.yaml in ``folder``, for the seeds 0, 1, ...; ``changed``: other values of its keys."""
    cells: dict[str, Any] = {"datasets": ["toys"], "backbones": ["tiny"], "losses": ["contrastive"]}
    cells |= {"methods": [*methods], "seeds": [*range(seeds)]}
    study = yaml.safe_load(SMALLEST) | {"grids": {"smallest": {"cells": [cells]}}} | changed
    path = folder / "params.yaml"
    path.write_text(yaml.safe_dump(study), encoding="utf-8")
    return path


def environment(**changed: str) -> dict[str, str]:
    """That of a process that is started from any folder and finds this package and its tools; it keeps what it compiles."""
    paths = [str(PROJECT), str(PROJECT / "src"), os.environ.get("PYTHONPATH", "")]
    tools = [str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
    around = {
        "PYTHONDONTWRITEBYTECODE": "",
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "PATH": os.pathsep.join(tools),
        "BGBIAS_TRACK": "0",
    }
    return os.environ | around | changed


def run(folder: Path, *words: str, **changed: str) -> str:
    """What a run of Python with these arguments prints; one that fails is a RuntimeError that shows how it ended."""
    done = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=environment(**changed),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}\n{done.stdout[-2000:]}")
    return done.stdout


def run_smallest(folder: Path) -> None:
    """Make the smallest study in ``folder``, and run what comes before its first model and that model's steps."""
    write_smallest(folder)
    for words in (*BEFORE, *((step, *CELL) for step in STEPS)):
        run(folder, "-m", "bgbias", *words)
