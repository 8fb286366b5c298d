"""What planning costs: a dry run of the largest grid, of grids of many cells, and DVC over what it has recorded."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path

from benchmarks import Contender, Figure, Measured, exponents
from benchmarks._project import copy_project, run, scratch_folder, write_smallest

DRY_RUN, NO_OP = "dry run", "dvc repro that finds nothing to do"
# Made first, so that DVC has something to find current; one stage of it if time is short.
RECORDED, SHORT = "smoke", ("data",)
# Cells of a small model, four nodes each. The first ones double, for the exponent.
CELLS, SMALL = (150, 300, 600, 1200, 1500), (2, 4, 8, 16, 20)
OURS, ALL = "the package's part", "all"
# What Snakemake's process takes of a core, and how much of it in the package: while the rules are read, and in their functions,
# which all go through `planned`.
MEASURED = """
import json, sys, time
from snakemake import cli, workflow

spent, inside, clock = 0.0, 0, time.process_time

def timed(function):
    def run(*args, **kwargs):
        global spent, inside
        begun, inside = clock(), inside + 1
        try:
            return function(*args, **kwargs)
        finally:
            inside -= 1
            spent += 0 if inside else clock() - begun
    return run

def included(self, *args, **kwargs):
    include(self, *args, **kwargs)
    if not inside - 1:
        self.globals["planned"] = timed(self.globals["planned"])

include, workflow.Workflow.include = workflow.Workflow.include, timed(included)
try:
    cli.main(sys.argv[1:])
finally:
    print(json.dumps({"the package's part": spent, "all": clock()}))
"""


def contenders(device: str, tiny: bool) -> Iterator[Contender]:
    folder = copy_project()
    _planned(clone=folder, cells=2)  # compiles what is imported
    for cells in _sizes(tiny):
        # Once: seconds of the processor need no rounds.
        yield Contender(f"{cells} cells", "ours", cache(partial(_planned, folder, cells)))
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
    sizes = _sizes(measured.tiny)
    took = {cells: measured.results[f"{cells} cells"] for cells in sizes}
    few, many = sizes[0], sizes[-1]
    a_node = (took[many][OURS] - took[few][OURS]) / (took[many]["nodes"] - took[few]["nodes"])
    slopes = {of: exponents(sizes[:-1], [[took[n][of] for n in sizes[:-1]]]) for of in (ALL, OURS)}
    return [
        Figure(f"CPU of a dry run of {few} cells", [took[few][ALL]], unit="s"),
        Figure(f"the package's part of it, {few} cells", [took[few][OURS]], unit="s"),
        Figure(f"CPU of a dry run of {many:,} cells", [took[many][ALL]], at_most=45, unit="s"),
        Figure(f"the package's part of it, {many:,} cells", [took[many][OURS]], unit="s"),
        Figure("the package's part, a step", [1000 * a_node], at_most=2, unit="ms"),
        Figure("exponent of the package's part, cells", slopes[OURS], at_most=1.15),
        Figure("exponent of all of it, cells", slopes[ALL], at_most=1.25),
        Figure("dry run", measured.seconds[DRY_RUN], at_most=10, unit="s"),
        Figure("dvc repro", measured.seconds[NO_OP], at_most=15, unit="s"),
        Figure("stages that it ran", [len(ran)], at_most=0),
    ]


def _sizes(tiny: bool) -> tuple[int, ...]:
    return SMALL if tiny else CELLS


def _planned(clone: Path, cells: int) -> dict[str, float]:
    """Seconds of the processor that a dry run of a study with two methods and so many cells takes, and its nodes."""
    folder = scratch_folder()
    write_smallest(folder, cells // 2)
    words = ("--snakefile", str(clone / "Snakefile"), "--cores", "1", "--dry-run", "--quiet", "all")
    said = run(folder, "-c", MEASURED, *words, PYTHONPYCACHEPREFIX=str(clone / "compiled"))
    (nodes,) = re.findall(r"^  total +(\d+)", said, flags=re.M)
    return {**json.loads(said.splitlines()[-1]), "nodes": int(nodes)}
