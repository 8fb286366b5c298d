"""What surrounds the work: a step's start and memory, files that are known already, planning, and the demo as a whole."""

import hashlib
import json
import os
import re
import subprocess
import sys
import time
import zipfile
from collections.abc import Sequence
from functools import cache, partial
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import Case, Figure, Measured, Run, Values, _project, exponents, ratio, result, seconds
from benchmarks._project import CELL, run, scratch_folder
from bgbias.files import checksums
from bgbias.files.checksums import fingerprint, sha256
from bgbias.images import pixels
from bgbias.seeds import generator

# Steps that have next to nothing to do, against importing what they cannot do without: the command line, settings (pydantic by
# itself loads nothing), tables, and what they compute with.

EVERY = "typer, pydantic.main, yaml, pandas"
NEEDS = {
    "train": f"{EVERY}, torch, faiss, pytorch_metric_learning.losses",
    "embed": f"{EVERY}, torch",
    "score": f"{EVERY}, faiss, pyarrow.parquet",
    "attribute": f"{EVERY}, torch",
}
# Inputs and products are hashed too, which these steps have next to none of.
HASHING = "hashing"
SOP_EMBEDDINGS = 60_502 * 6 * 128 * 4  # bytes: one clean and five corrupted views a photo


def node_start(device: str, hashed: int = 2**28) -> Case:
    """``hashed``: bytes."""
    folder = scratch_folder()
    _project.run_smallest(folder)
    large = folder / "large"
    large.write_bytes(bytes(hashed))

    def hash_file() -> str:
        os.utime(large)  # one that was touched is read again
        return sha256(large)

    ours: dict[str, Run] = {HASHING: hash_file}
    limits, figures = {}, []
    for step, packages in NEEDS.items():
        ours[f"{step} step"] = partial(run, folder, "-m", "bgbias", step, *CELL)
        limits[f"import {packages}"] = partial(run, folder, "-c", f"import {packages}")
        what = f"a {step} step of next to no work, by the import of {packages}"
        figures.append(Figure(what, ratio(f"{step} step", f"import {packages}"), at_most=1.3))
    for what, size in (
        ("a GB of inputs or products", 1e9),
        ("the embeddings of SOP's test photos", SOP_EMBEDDINGS),
    ):
        figures.append(Figure(f"hashing {what}", seconds(HASHING, size / hashed), unit="s"))
    return Case(ours=ours, limits=limits, figures=figures)


# What planning takes to know a folder's photos by their content, once they have been read, against looking at them alone.

OURS, BY_SIZE, SCAN = "by content, remembered", "by name and size alone (pathlib)", "os.scandir and stat"


def known_files(device: str, classes: int = 200, photos: int = 750) -> Case:
    folder = scratch_folder()
    root, database = folder / "photos", folder / "known.sqlite"
    for label in range(classes):
        (root / str(label)).mkdir(parents=True)
        for number in range(photos):
            (root / str(label) / f"{number}.jpg").write_bytes(os.urandom(64))
    time.sleep(checksums.SETTLED / 1e9)  # what has just been written is not remembered
    fingerprint(str(root), database)

    def ours() -> str:
        fingerprint.cache_clear()
        return fingerprint(str(root), database)

    return Case(
        ours={OURS: ours},
        peers={BY_SIZE: lambda: _hash_sizes(root)},
        limits={SCAN: lambda: _scan(root)},
        figures=[
            Figure("times as fast as by name and size", ratio(BY_SIZE, OURS), at_least=1),
            Figure("by scandir and stat alone", ratio(OURS, SCAN)),
            Figure("by content, remembered", seconds(OURS), unit="s"),
        ],
    )


def _scan(folder: Path) -> int:
    with os.scandir(folder) as entries:
        return sum(_scan(Path(e.path)) if e.is_dir() else e.stat().st_size for e in entries)


def _hash_sizes(folder: Path) -> str:
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    text = "\n".join(f"{p.relative_to(folder).as_posix()} {p.stat().st_size}" for p in files)
    return hashlib.sha256(text.encode()).hexdigest()


# The demo as `make demo` runs it: how long it takes, and what part of the machine its steps' work has.

DEMO, SHORT = "demo", "smoke"


def demo_share(device: str, grid: str = DEMO) -> Case:
    # The run that is not timed is a short one: compiled modules are there then, and in the disk's cache.
    grids = chain([SHORT], repeat(grid))

    def demo() -> float:
        """Seconds that steps worked, by their records. Each step of the demo has one thread."""
        folder = _project.copy_project()
        words = ("--cores", "all", "--quiet", "rules", "--config", f"grid={next(grids)}")
        run(folder, "-m", "snakemake", *words, BGBIAS_TRACK="1")
        records = [json.loads(path.read_text(encoding="utf-8")) for path in (folder / "data").rglob("*.json")]
        return sum(record["seconds"] for record in records if "seconds" in record)

    def share(m: Measured) -> float:
        return float(m.results[DEMO] / (m.seconds[DEMO][-1] * _project.CORES))

    return Case(
        ours={DEMO: demo},
        figures=[
            Figure("share of the machine that is the steps' own work", share, at_least=0.85),
            Figure("from photos to tables", seconds(DEMO, 1 / 60), at_most=5, unit="min"),
        ],
    )


# What planning costs: a dry run of the largest grid, of grids of many cells, and DVC over what it has recorded.

DRY_RUN, NO_OP = "dry run", "dvc repro that finds nothing to do"
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
    print(json.dumps({"ours": spent, "all": clock()}))
"""


def planning(
    device: str,
    cells: Sequence[int] = (150, 300, 600, 1200, 1500),
    grid: str = "paper",
    stages: Sequence[str] = (),
) -> Case:
    """``cells`` of a small model; all but the last double, for the exponent. ``stages``: of DVC, all if none is named."""
    folder = _project.copy_project()
    _plan(folder, cells=2)  # compiles what is imported
    # Once: seconds of the processor need no rounds.
    ours: dict[str, Run] = {f"{n} cells": cache(partial(_plan, folder, n)) for n in cells}
    words = ("--cores", "1", "--dry-run", "--quiet", "all", "--config", f"grid={grid}")
    ours[DRY_RUN] = partial(run, folder, "-m", "snakemake", *words)
    # A small grid is made first, so that DVC has something to find current.
    settings = folder / "params.yaml"
    settings.write_text(re.sub(r"^grid: \w+", f"grid: {SHORT}", settings.read_text(), flags=re.M))
    subprocess.run(["git", "init", "--quiet"], cwd=folder, check=True)
    ours[NO_OP] = partial(run, folder, "-m", "dvc", "repro", *stages)
    ours[NO_OP]()

    def each(m: Measured) -> float:
        """Milliseconds of the package's part."""
        few, many = (m.results[f"{n} cells"] for n in (cells[0], cells[-1]))
        return float(1000 * (many["ours"] - few["ours"]) / (many["steps"] - few["steps"]))

    def exponent(key: str) -> Values:
        return lambda m: exponents(cells[:-1], [[m.results[f"{n} cells"][key] for n in cells[:-1]]])

    figures = []
    for count, at_most in ((cells[0], None), (cells[-1], 45)):
        figures += [
            Figure(
                f"CPU of a dry run of {count:,} cells",
                result(f"{count} cells", "all"),
                at_most=at_most,
                unit="s",
            ),
            Figure(f"the package's part of it, {count:,} cells", result(f"{count} cells", "ours"), unit="s"),
        ]
    figures += [
        Figure("the package's part, a step", each, at_most=2, unit="ms"),
        Figure("exponent of the package's part, cells", exponent("ours"), at_most=1.15),
        Figure("exponent of all of it, cells", exponent("all"), at_most=1.25),
        Figure("dry run", seconds(DRY_RUN), at_most=10, unit="s"),
        Figure("dvc repro", seconds(NO_OP), at_most=15, unit="s"),
        Figure("stages that it ran", lambda m: m.results[NO_OP].count("Running stage '"), at_most=0),
    ]
    return Case(ours=ours, figures=figures)


def _plan(clone: Path, cells: int) -> dict[str, float]:
    """Seconds of the processor that a dry run of a study with two methods and so many cells takes, and its steps."""
    folder = scratch_folder()
    _project.write_smallest(folder, cells // 2)
    words = ("--snakefile", str(clone / "Snakefile"), "--cores", "1", "--dry-run", "--quiet", "all")
    printed = run(folder, "-c", MEASURED, *words)
    (steps,) = re.findall(r"^  total +(\d+)", printed, flags=re.M)
    return {**json.loads(printed.splitlines()[-1]), "steps": int(steps)}


# The most memory that each kind of step takes with as many test photos as SOP has, and with the smallest network. What a process
# holds by itself is counted (Linux: ``RssAnon``), libraries and the network included. Pages of prepared pictures are not:
# processes share them, and the kernel takes them back when it needs room. Masks are given, and attribution has one noisy copy of
# a photo: both work photo by photo. What a larger network holds of a batch comes on top.

PER_CLASS = 5.34
SPLITS = {"train": 2000, "val": 500, "test": 60_502}
# The steps in their order, each with the most that it may hold in MB.
AT_MOST = {
    **dict.fromkeys(("fetch", "index", "masks", "backgrounds"), 1000),
    **{"train": 1500, "embed": 1500, "score": 1000, "attribute": 1500, "segment": 1500, "collect": 1000},
}
# Of what: the model unless given.
OF = {**{step: (name,) for step, name in _project.BEFORE}, "fetch": ("toys",), "collect": ()}
TABLE = {"source": "photos.csv", "root": "photos.zip", "masks": True}
STUDY: dict[str, Any] = {
    "datasets": {
        "toys": {"kind": "table", "masker": "ground_truth", "backgrounds": "scenes", "options": TABLE}
    },
    "backgrounds": {"scenes": {"train": {"textures": 2}, "val": {"textures": 2}, "test": {"textures": 100}}},
    "train": {"iterations_per_epoch": 1, "max_epochs": 1, "embedding_dim": 128, "freeze_batch_norm": False},
    "evaluation": {"draws": 5},
    "attribution": {"samples": 1},
    "segmentation": {"episodes": 1000},
}
LOOK = 0.01  # seconds between two looks at what a process holds


def memory(device: str, part: int = 1) -> Case:
    """``part``: one class in so many."""
    folder = scratch_folder()
    _write_photos(folder, part)
    _project.write_smallest(folder, methods=("plain",), **STUDY)
    # Once: it is the same each time, and takes minutes.
    held = {step: partial(float, _hold(folder, step, *OF.get(step, CELL))) for step in AT_MOST}
    figures = [
        Figure(f"most that {step} holds", result(step), None, most, "MB") for step, most in AT_MOST.items()
    ]
    return Case(ours=held, figures=figures)


def _write_photos(folder: Path, part: int) -> None:
    """A table, and a zip of small photos and their masks; only one class in ``part``."""
    rng = generator("benchmark memory")
    mask = pixels.encode_png(np.pad(np.full((32, 32), 255, np.uint8), 16))
    lines = ["image,label,split,mask"]
    with zipfile.ZipFile(folder / "photos.zip", "w") as file:
        for split, photos in SPLITS.items():
            for number in range(photos // part):
                colours = rng.integers(0, 256, (4, 4, 3), np.uint8)
                name = f"{split}/{number:06d}.png"
                file.writestr(name, pixels.encode_png(colours.repeat(16, 0).repeat(16, 1)))
                file.writestr(f"masks/{name}", mask)
                lines.append(f"{name},{split} {int(number / PER_CLASS)},{split},masks/{name}")
    (folder / "photos.csv").write_text("\n".join(lines), encoding="utf-8")


def _hold(folder: Path, *words: str) -> float:
    """The most, in MB, that this step's process holds."""
    command = [sys.executable, "-m", "bgbias", *words]
    step = subprocess.Popen(command, cwd=folder, env=_project.environment(), stdout=subprocess.DEVNULL)
    status, most = Path(f"/proc/{step.pid}/status"), 0.0
    while step.poll() is None:
        held = [line.split()[1] for line in status.read_text().splitlines() if line.startswith("RssAnon")]
        most = max([most, *(int(kilobytes) / 1024 for kilobytes in held)])
        time.sleep(LOOK)
    if step.returncode:
        raise RuntimeError(f"{' '.join(words)} failed, see above")
    return most
