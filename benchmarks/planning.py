"""What it costs to ask when nothing has to be done: a dry run of the largest grid, and DVC over what it has recorded."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from functools import partial

from benchmarks import Contender, Figure, Measured
from benchmarks._commands import project_copy, run

TITLE = "a dry run of `paper` with 5 seeds (more than 600 nodes), and `dvc repro` of what is current"
DEVICES = ("cpu",)
THREADS = 1
ROUNDS = 3
DRY_RUN, NO_OP = "dry run", "dvc repro that finds nothing to do"
# Made first, so that DVC has something to find current; one stage of it if time is short.
RECORDED, SHORT = "smoke", ("data",)


def contenders(device: str, tiny: bool) -> Iterator[Contender]:
    folder = project_copy()
    words = ("--cores", "1", "--dry-run", "--quiet", "all", "--config")
    grid = f"grid={RECORDED if tiny else 'paper'}"
    yield Contender(DRY_RUN, "ours", partial(run, folder, "-m", "snakemake", *words, grid))
    settings = folder / "params.yaml"
    settings.write_text(re.sub(r"^grid: \w+", f"grid: {RECORDED}", settings.read_text(), flags=re.M))
    subprocess.run(["git", "init", "--quiet"], cwd=folder, check=True)
    repro = partial(run, folder, "-m", "dvc", "repro", *(SHORT if tiny else ()))
    repro()
    yield Contender(NO_OP, "ours", repro)


def judge(measured: Measured) -> list[Figure]:
    ran = re.findall(r"Running stage '(.*)'", measured.results[NO_OP])
    return [
        Figure("dry run", measured.seconds[DRY_RUN], at_most=10, unit="s"),
        Figure("dvc repro", measured.seconds[NO_OP], at_most=15, unit="s"),
        Figure("stages that it ran", [len(ran)], at_most=0),
    ]
