"""A series of accidents drawn from a seed: what is made in the end is, byte for byte, what an undisturbed run makes.

``BGBIAS_SOAK_SEED`` repeats a series (each prints its own), ``BGBIAS_SOAK_ROUNDS`` makes it longer.
"""

from __future__ import annotations

import os
import random
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from project import PATIENCE, Project, wait_for

from bgbias.engine import graph, records
from bgbias.files import checksums
from bgbias.study import params

pytestmark = [pytest.mark.slow, pytest.mark.workflow]
PROGRAMS = (("snakemake", "--cores", "2", "--config", "grid=smoke"), ("bgbias", "resume", "--grid", "smoke"))
KILLED = ("a node", "Snakemake", "everything")
LEFTOVERS = ("**/*.partial", "**/*.stale", "**/checkpoint.pt", "work/running/*")


def test_after_any_accident_products_are_those_of_an_undisturbed_run(
    smoke_run: Project, tmp_path: Path
) -> None:
    seed = int(os.environ.get("BGBIAS_SOAK_SEED", random.SystemRandom().randrange(10**6)))
    rounds = int(os.environ.get("BGBIAS_SOAK_ROUNDS", "9"))
    print(f"BGBIAS_SOAK_SEED={seed} BGBIAS_SOAK_ROUNDS={rounds}", flush=True)
    drawn = random.Random(seed)
    run, wanted = smoke_run.copy(tmp_path / "project"), made(smoke_run.folder)
    study = params.load(run.folder / "params.yaml", "smoke")
    nodes = graph.in_order(study)
    for number in range(rounds):
        first, words, killed = drawn.choice(nodes), drawn.choice(PROGRAMS), KILLED[number % len(KILLED)]
        print(f"{' '.join(words)}, before {first.label}: {killed} is killed", flush=True)
        unmade = {first}
        for node in nodes:
            if node in unmade or not unmade.isdisjoint(graph.reads_from(study, node)):
                unmade.add(node)
                (run.folder / node.record(study)).unlink()
        program = run.start(program=words)
        wait_for(lambda: alive(run.folder, "a node") or program.poll() is not None, "a node")  # noqa: B023
        time.sleep(drawn.uniform(0, 8))
        for process in alive(run.folder, killed):
            with suppress(psutil.NoSuchProcess):
                process.kill()
        program.wait(PATIENCE)
        run.bgbias("resume", "--grid", "smoke")
        assert made(run.folder) == wanted
        assert [path for pattern in LEFTOVERS for path in (run.folder / "data").glob(pattern)] == []
        assert alive(run.folder, "everything") == []


def alive(folder: Path, kind: str) -> list[psutil.Process]:
    """Processes of this project."""
    found = []
    for process in psutil.process_iter(["cmdline", "cwd", "status"]):
        here = process.info["cwd"] == str(folder) and process.info["status"] != psutil.STATUS_ZOMBIE
        words = (process.info["cmdline"] or [])[1:4]
        is_node = words[:2] == ["-m", "bgbias"] and words[2:] != ["resume"]
        is_kind = {"a node": is_node, "Snakemake": words[:2] == ["-m", "snakemake"], "everything": True}
        if here and is_kind[kind]:
            found.append(process)
    return found


def made(folder: Path) -> dict[str, str]:
    """What every node made and certifies, by its bytes."""
    study, found = params.load(folder / "params.yaml", "smoke"), dict[str, str]()
    for node in graph.in_order(study):
        for name, certified in records.read(folder / node.record(study))["outputs"].items():
            assert checksums.sha256(folder / name) == certified, name
            found[name] = certified
    return found
