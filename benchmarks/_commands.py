"""Commands of this very package in another folder, as from a terminal."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import bgbias
from benchmarks._scratch import scratch_folder

SOURCE = Path(bgbias.__file__).parents[1]
# What a clone of the project has.
PARTS = (
    *("Snakefile", "workflow", "profiles", "params.yaml", "grids", "dvc.yaml", "requirements.lock"),
    *("data/backgrounds", "data/published", "data/weights"),
    *(".dvc/config", ".dvc/.gitignore", ".dvcignore", ".gitignore"),
)


def run(folder: Path, *words: str, **environment: str) -> str:
    """What a run of Python with these arguments prints; one that fails is a RuntimeError that shows how it ended."""
    found = [str(SOURCE), *filter(None, [os.environ.get("PYTHONPATH")])]
    tools = [str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
    own = {
        # Python keeps what it compiled, as it does unless it is told not to.
        "PYTHONPYCACHEPREFIX": str(folder / "compiled"),
        "PYTHONDONTWRITEBYTECODE": "",
        "PYTHONPATH": os.pathsep.join(found),
        "PATH": os.pathsep.join(tools),
        "BGBIAS_TRACK": "0",
    }
    done = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=os.environ | own | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}\n{done.stdout[-2000:]}")
    return done.stdout


def project_copy() -> Path:
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
