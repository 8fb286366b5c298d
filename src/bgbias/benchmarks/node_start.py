"""What a node costs beyond its work: nodes that have next to nothing to do, against importing what they need."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import bgbias
from bgbias.benchmarks import Contender, Figure, Measured

TITLE = "a node's overhead"
DEVICES = ("cpu",)
THREADS = 1
ROUNDS = 3
CELL = ("toys", "tiny", "contrastive", "plain")
BEFORE = (("index", "toys"), ("masks", "toys"), ("backgrounds", "scenes"))
# What a node cannot do without: the command line and the settings (pydantic by itself loads nothing), tables, and what it
# computes with.
EVERY = "typer, pydantic.main, yaml, pandas"
NEEDS = {
    "train": f"{EVERY}, torch, faiss, pytorch_metric_learning.losses",
    "embed": f"{EVERY}, torch",
    "score": f"{EVERY}, faiss, pyarrow.parquet",
    "attribute": f"{EVERY}, torch",
}
AT_MOST = 1.3


def contenders(device: str, tiny: bool) -> Iterator[Contender]:
    from bgbias.benchmarks import _study

    folder = Path(tempfile.mkdtemp(prefix="bgbias-bench-"))
    _study.write(folder)
    for words in (*BEFORE, *((node, *CELL) for node in NEEDS)):
        _run(folder, "-m", "bgbias", *words)
    for node in NEEDS:
        yield Contender(f"{node} node", "ours", partial(_run, folder, "-m", "bgbias", node, *CELL))
    for packages in dict.fromkeys(NEEDS.values()):
        yield Contender(f"import {packages}", "limit", partial(_run, folder, "-c", f"import {packages}"))


def judge(measured: Measured) -> list[Figure]:
    return [
        measured.ratio(
            f"a {node} node of next to no work, by the import of {packages}",
            f"{node} node",
            f"import {packages}",
            at_most=AT_MOST,
        )
        for node, packages in NEEDS.items()
    ]


def _run(folder: Path, *words: str) -> None:
    # This very package, from another folder.
    found = [str(Path(bgbias.__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    # Python keeps what it compiled, as it does unless it is told not to.
    kept = {"PYTHONPYCACHEPREFIX": str(folder / "compiled"), "PYTHONDONTWRITEBYTECODE": ""}
    environment = os.environ | kept | {"BGBIAS_TRACK": "0", "PYTHONPATH": os.pathsep.join(found)}
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}\n{done.stderr[-2000:]}")
