"""The demo from photos to tables, as `make demo` runs it: how long it takes, and what part of the machine its nodes' work has."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain, repeat
from pathlib import Path

from benchmarks import Contender, Figure, Measured
from benchmarks._project import copy_project, cores, run

DEMO, SHORT = "demo", "smoke"
# Compiled modules lie where they always do: a demo does not compile torch anew.
AS_TYPED = {"BGBIAS_TRACK": "1", "PYTHONPYCACHEPREFIX": ""}


def contenders(device: str, tiny: bool) -> Iterator[Contender]:
    words = ("-m", "snakemake", "--cores", "all", "--quiet", "rules", "--config")
    # The run that is not timed is a short one: compiled modules are there then, and in the disk's cache.
    grids = chain([SHORT], repeat(SHORT if tiny else DEMO))

    def demo() -> float:
        folder = copy_project()
        run(folder, *words, f"grid={next(grids)}", **AS_TYPED)
        return worked(folder / "data")

    yield Contender(DEMO, "ours", demo)


def worked(folder: Path) -> float:
    """Seconds that nodes worked, by their records below a folder. Each node of the demo has one thread."""
    records = [json.loads(path.read_text(encoding="utf-8")) for path in folder.rglob("*.json")]
    return sum(r["seconds"] for r in records if "seconds" in r)


def judge(measured: Measured) -> list[Figure]:
    took = measured.seconds[DEMO]
    share = measured.results[DEMO] / (took[-1] * cores())
    return [
        Figure("share of the machine that is the steps' own work", [share], at_least=0.85),
        Figure("from photos to tables", [seconds / 60 for seconds in took], at_most=5, unit="min"),
    ]
