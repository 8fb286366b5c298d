"""Nodes of next to no work, run by Snakemake: forked from a process whose imports are done, or each starting by itself."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import partial

from benchmarks import Contender, Figure, Measured, _study
from benchmarks._commands import project_copy, run

TITLE = "200 nodes of next to no work, run by Snakemake on all cores"
DEVICES = ("cpu",)
THREADS = None
ROUNDS = 1
FORKED, BY_THEMSELVES = "forked", "each by itself"
SEEDS = 25  # of two methods, with four nodes each


def contenders(device: str, tiny: bool) -> Iterator[Contender]:
    folder = project_copy()
    _study.write(folder, 1 if tiny else SEEDS)
    # Compiled modules lie where they always do.
    words = ("-m", "snakemake", "--cores", "all", "--quiet", "rules", "--")
    made = partial(run, folder, *words, PYTHONPYCACHEPREFIX="")
    made("data", "all_masks")

    def scores(warm: str) -> None:
        shutil.rmtree(folder / "data/runs", ignore_errors=True)
        made("scores", BGBIAS_WARM=warm)

    yield Contender(FORKED, "ours", partial(scores, ""))
    yield Contender(BY_THEMSELVES, "limit", partial(scores, "0"))


def judge(measured: Measured) -> list[Figure]:
    return [
        measured.ratio(
            "times as fast as nodes that start by themselves", BY_THEMSELVES, FORKED, at_least=1.5
        ),
        Figure("seconds a node", [s / (8 * SEEDS) for s in measured.seconds[FORKED]], unit="s"),
    ]
