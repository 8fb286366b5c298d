"""A series of accidents drawn from a seed: what is made in the end is, byte for byte, what an undisturbed run makes.

``BGBIAS_SOAK_SEED`` repeats a series (each prints its own), ``BGBIAS_SOAK_ROUNDS`` makes it longer.
"""

from __future__ import annotations

import os
import random
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from accidents import ACCIDENTS, PROGRAMS, Frail
from project import Project

from bgbias.engine import graph, records
from bgbias.files import checksums
from bgbias.study import params

pytestmark = [pytest.mark.slow, pytest.mark.workflow]

ROUNDS = int(os.environ.get("BGBIAS_SOAK_ROUNDS", "9"))
TRIES = 4  # rounds in which an accident may come too late, for one in which it happens


@pytest.fixture
def run(smoke_run: Project, tmp_path: Path) -> Frail:
    """A finished run, with its products under DVC."""
    seed = int(os.environ.get("BGBIAS_SOAK_SEED", random.SystemRandom().randrange(10**6)))
    print(f"BGBIAS_SOAK_SEED={seed} BGBIAS_SOAK_ROUNDS={ROUNDS}", flush=True)
    copied = smoke_run.copy(tmp_path / "project")
    copied.edit("grid: demo ", "grid: smoke ")
    subprocess.run(["git", "init", "--quiet"], cwd=copied.folder, check=True)
    frail = Frail(copied.folder, seed)
    frail.run("dvc", "commit", "--force", "--quiet")
    return frail


def test_after_any_accident_products_are_those_of_an_undisturbed_run(smoke_run: Project, run: Frail) -> None:
    wanted = made(smoke_run.folder)
    happened: Counter[str] = Counter()
    deck: list[str] = []
    for _ in range(TRIES * ROUNDS):
        if happened.total() >= ROUNDS and set(happened) == set(ACCIDENTS):
            break
        deck = deck or run.random.sample(list(ACCIDENTS), len(ACCIDENTS))
        accident, programs = ACCIDENTS[deck[0]]
        name = run.random.choice(programs)
        print(f"{' '.join(PROGRAMS[name])}, {run.spoil()}: {deck[0]}", end="", flush=True)
        program = run.begin(name)
        run.wait_a_while(program)
        if accident(run, program):
            happened[deck.pop(0)] += 1
            print(flush=True)
        else:
            print(", but too late", flush=True)
        run.recover()
        assert made(run.folder) == wanted
        assert left_lying(run.folder) == []
        assert run.alive("all") == []
    print(dict(happened), flush=True)
    assert set(happened) == set(ACCIDENTS), "not every accident happened"
    run.run(*PROGRAMS["dvc"])
    assert "up to date" in run.run("dvc", "status").stdout
    assert made(run.folder) == wanted


def made(folder: Path) -> dict[str, str]:
    """What every node made and certifies, by its bytes."""
    study, found = params.load(folder / "params.yaml", "smoke"), dict[str, str]()
    for node in graph.in_order(study):
        record = records.read(folder / node.record(study))
        assert record["status"] == "done"
        for name, certified in record["outputs"].items():
            assert checksums.sha256(folder / name) == certified, name
            found[name] = certified
    assert sum(name.endswith((".csv", ".tex", ".safetensors")) for name in found) > 10
    return found


def left_lying(folder: Path) -> list[str]:
    """What nobody will ever read: halves of files, and the states of nodes that are finished."""
    data = folder / "data"
    patterns = ("**/*.partial", "**/*.stale", "**/checkpoint.pt", "work/running/*")
    found = [path for pattern in patterns for path in data.glob(pattern)]
    return sorted(str(path.relative_to(folder)) for path in found)
