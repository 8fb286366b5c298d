"""What comparisons share: the machine's cores, folders that last as long as the process, commands of this very package in them as
from a terminal; models of random weights, which do not matter to speed, and the real loop of training around them."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bgbias import plugins, seeds
from bgbias.files.code import ROOT

SOURCE = ROOT.parent
# What a clone of the project has.
PARTS = (
    *("Snakefile", "workflow", "profiles", "params.yaml", "grids", "dvc.yaml", "requirements.lock"),
    *("data/backgrounds", "data/published", "data/weights"),
    *(".dvc/config", ".dvc/.gitignore", ".dvcignore", ".gitignore"),
)

# A study whose nodes have next to nothing to do: its first model, and what is made before any.
CELL = ("toys", "tiny", "contrastive", "plain")
BEFORE = (("index", "toys"), ("masks", "toys"), ("backgrounds", "scenes"))
SMALLEST = """
grid: smallest
datasets:
  toys:
    {{kind: toy, masker: ground_truth, backgrounds: scenes,
      options: {{size: 32, train_classes: 2, val_classes: 2, test_classes: 2, photos_per_class: 4}}}}
maskers: {{ground_truth: {{kind: ground_truth}}}}
backgrounds: {{scenes: {{train: {{toy_scenes: 2}}, val: {{toy_scenes: 2}}, test: {{toy_scenes: 2}}}}}}
backbones: {{tiny: {{}}}}
losses: {{contrastive: {{default: {{pos_margin: 0.0, neg_margin: 0.5}}}}}}
train: {{batch_size: 8, iterations_per_epoch: 1, max_epochs: 1, embedding_dim: 8, freeze_batch_norm: false}}
evaluation: {{draws: 1}}
attribution: {{images: 1, samples: 1}}
grids:
  smallest:
    cells:
      - {{datasets: [toys], backbones: [tiny], losses: [contrastive], methods: [plain, bgaugment], seeds: {seeds}}}
"""


def cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def scratch_folder() -> Path:
    """A new folder, deleted when the process ends; one that is killed leaves it to the system."""
    folder = Path(tempfile.mkdtemp(prefix="bgbias-bench-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def write_smallest(folder: Path, seeds: int = 1) -> Path:
    """The smallest study's params.yaml in ``folder``, for the seeds 0, 1, ..."""
    path = folder / "params.yaml"
    path.write_text(SMALLEST.format(seeds=list(range(seeds))), encoding="utf-8")
    return path


def run(folder: Path, *words: str, **environment: str) -> str:
    """What a run of Python with these arguments prints; one that fails is a RuntimeError that shows how it ended."""
    searched = [str(SOURCE), *filter(None, [os.environ.get("PYTHONPATH")])]
    tools = [str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
    around = {
        # Python keeps what it compiled, as it does unless it is told not to.
        "PYTHONPYCACHEPREFIX": str(folder / "compiled"),
        "PYTHONDONTWRITEBYTECODE": "",
        "PYTHONPATH": os.pathsep.join(searched),
        "PATH": os.pathsep.join(tools),
        "BGBIAS_TRACK": "0",
    }
    done = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=os.environ | around | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}\n{done.stdout[-2000:]}")
    return done.stdout


def copy_project() -> Path:
    """A new folder with what a clone of the project has."""
    folder = scratch_folder()
    for part in (*PARTS, "src"):
        place, copy = SOURCE.parent / part, folder / part
        copy.parent.mkdir(parents=True, exist_ok=True)
        if place.is_dir():
            shutil.copytree(place, copy, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(place, copy)
    return folder


def random_model(backbone: str, device: str = "cpu", dim: int = 128) -> Any:
    """A backbone under a random embedding layer."""
    from bgbias.models.model import build_model

    options = {} if backbone == "tiny" else {"weights": None}
    params = plugins.load("backbones", backbone).Params.model_validate(options)
    return build_model(backbone, params, dim, seeds.torch_generator("bench")).to(device)


def contrastive_method(name: str, model: Any, device: str) -> Any:
    """A method with the contrastive loss around a model, on its device."""
    from bgbias.training import loop

    loss = plugins.load("losses", "contrastive")
    base = loss.build(loss.Params(pos_margin=0, neg_margin=0.5), 0, 128, seeds.torch_generator("bench"))
    module = plugins.load("methods", name)
    params = (module.Params(),) if hasattr(module, "Params") else ()
    method = module.Method(model, base, *params)
    loop.to_device(method, device)
    return method


def trainer(method: Any, steps: int, device: str) -> Callable[[Any], object]:
    """So many steps of the real loop over given batches."""
    from bgbias.training import loop
    from bgbias.training.settings import Train

    settings = Train(iterations_per_epoch=steps)
    optimizer = loop.make_optimizer(method, settings)
    return lambda batches: loop.train_epoch(method, batches, optimizer, settings, device, 1)
