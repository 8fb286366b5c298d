"""What the mirror into MLflow takes of a core: its start, while short nodes end one after the other, and when nothing happens."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import Any

import psutil

from benchmarks import Contender, Figure, Measured
from benchmarks._project import BEFORE, CELL, SOURCE, run, scratch_folder, write_smallest

NODES = ("train", "embed", "score", "attribute")
# What a record of a node at work does not have yet.
OF_FINISHED = (
    "finished",
    "outputs",
    "inputs",
    "metrics",
    "seconds",
    "peak_memory_mb",
    "vitals",
    "notes",
    "epoch_seconds",
)
WORKING, IDLE = "steps that end one after the other", "nothing happens"
# A node ends this often (two at a time, of three seconds each), and an epoch of the training beside them.
EACH, EPOCH = 1.5, 1.0
SECONDS, QUIET = 90.0, 40.0
CELLS_BEFORE, CELLS_IDLE = 10, 750


@dataclass(frozen=True)
class Share:
    """Seconds of a processor: until what was there at the start is shown, and of each second after that."""

    start: float
    share: float
    records: int


def contenders(device: str, tiny: bool) -> Iterator[Contender]:
    made = _one_cell(scratch_folder())
    for name, cells, seconds in ((WORKING, CELLS_BEFORE, SECONDS), (IDLE, CELLS_IDLE, QUIET)):
        size = (2, 2.0) if tiny else (cells, seconds)
        # Once: what counts are its seconds of the processor, which need no rounds.
        yield Contender(name, "ours", cache(partial(_watched, made, *size, working=name == WORKING)))


def judge(measured: Measured) -> list[Figure]:
    working, idle = (measured.results[name] for name in (WORKING, IDLE))
    extra = (idle.start - working.start) / max(1, idle.records - working.records)
    return [
        Figure(f"its start, with {working.records} records, on a new database", [working.start], unit="s"),
        Figure("each further record that is there at its start", [extra], unit="s"),
        Figure(f"share of a core while a step ends every {EACH} s", [working.share], at_most=0.03),
        Figure(f"share of a core beside {idle.records:,} finished steps", [idle.share], at_most=0.01),
    ]


def _one_cell(folder: Path) -> Path:
    write_smallest(folder)
    for words in (*BEFORE, *((node, *CELL) for node in NODES)):
        run(folder, "-m", "bgbias", *words)
    return folder


class Grid:
    """Copies of one cell's records under other seeds, written as its nodes write them."""

    def __init__(self, made: Path, folder: Path) -> None:
        from bgbias.files import json_checksum

        self.folder = folder
        shutil.copytree(made, folder, dirs_exist_ok=True)
        found = {
            node: next(folder.glob(f"data/runs/*/*/*/*/*/*/seed0/{name}.json"))
            for node, name in {n: "run" if n == "train" else n for n in NODES}.items()
        }
        self.records = {node: path.relative_to(folder) for node, path in found.items()}
        self.values = {node: json.dumps(json_checksum.read(path)) for node, path in found.items()}
        self.digests = [json.loads(text)["digest"] for text in self.values.values()]

    def record(self, node: str, seed: int) -> tuple[Path, dict[str, Any]]:
        from bgbias.files import json_checksum

        text = self.values[node].replace("seed0", f"seed{seed}").replace('"seed": 0', f'"seed": {seed}')
        for digest in self.digests:
            text = text.replace(digest, hashlib.sha256(f"{digest} {seed}".encode()).hexdigest()[:16])
        now = datetime.now(UTC).isoformat(timespec="seconds")
        value = {
            k: v for k, v in json.loads(text).items() if k not in (json_checksum.SEAL, json_checksum.SEALED)
        }
        value |= {"started": now, "finished": now, "pid": os.getpid()}
        return self.folder / str(self.records[node]).replace("seed0", f"seed{seed}"), value

    def begin(self, node: str, seed: int) -> None:
        from bgbias.files.atomic import write_json

        _, value = self.record(node, seed)
        if node == "train":
            self.history(seed).parent.mkdir(parents=True, exist_ok=True)
            self.history(seed).write_text("epoch,loss,val_map_at_r,train_seconds,validate_seconds\n")
            value["history"] = str(self.history(seed).relative_to(self.folder))
        begun = {k: v for k, v in value.items() if k not in OF_FINISHED}
        write_json(self.running(node, seed), begun | {"status": "running"})

    def running(self, node: str, seed: int) -> Path:
        return self.folder / f"data/work/running/{node}_{seed}.json"

    def history(self, seed: int) -> Path:
        return self.folder / f"data/work/partial/smallest/seed{seed}/history.csv"

    def grow(self, seed: int, epoch: int) -> None:
        with self.history(seed).open("a") as file:
            file.write(f"{epoch},{1 / epoch:.4f},{0.5 - 0.3 / epoch:.4f},1.5,0.5\n")

    def end(self, node: str, seed: int, weights: bool = True) -> None:
        from bgbias.files import json_checksum

        path, value = self.record(node, seed)
        path.parent.mkdir(parents=True, exist_ok=True)
        if node == "train" and weights:
            for output in value["outputs"]:
                shutil.copy(self.folder / output.replace(f"seed{seed}", "seed0"), self.folder / output)
        json_checksum.write(path, value)
        self.running(node, seed).unlink(missing_ok=True)


def _watched(made: Path, cells: int, seconds: float, working: bool) -> Share:
    grid = Grid(made, scratch_folder())
    for seed in range(1, cells):
        for node in NODES:
            grid.end(node, seed, weights=working)
    words = [sys.executable, "-m", "bgbias", "track", "--follow", str(os.getpid())]
    mirror = subprocess.Popen(words, cwd=grid.folder, env=os.environ | {"PYTHONPATH": str(SOURCE)})
    try:
        process = psutil.Process(mirror.pid)
        _shown(process)
        start, begun = _seconds(process), time.monotonic()
        if working:
            _work(grid, cells, seconds)
        else:
            time.sleep(seconds)
        share = (_seconds(process) - start) / (time.monotonic() - begun)
    finally:
        mirror.terminate()
        mirror.wait()
    return Share(start, share, len(BEFORE) + len(NODES) * cells)


def _seconds(process: psutil.Process) -> float:
    """What a process has taken of the processor."""
    times = process.cpu_times()
    return float(times.user + times.system)


def _shown(process: psutil.Process) -> None:
    """Wait until all that was there is shown: until next to nothing was done for three looks."""
    before, quiet = 0.0, 0
    while quiet < 3:
        time.sleep(2)
        now = _seconds(process)
        quiet, before = (quiet + 1 if 2 < now < before + 0.2 else 0), now


def _work(grid: Grid, first: int, seconds: float) -> None:
    begun, number, epoch, longest = time.monotonic(), 0, 0, 10_000
    grid.begin("train", longest)
    while (now := time.monotonic() - begun) < seconds:
        if now >= number * EACH:
            seed, place = divmod(number, len(NODES))
            if number:
                before, was = divmod(number - 1, len(NODES))
                grid.end(NODES[was], first + before)
            grid.begin(NODES[place], first + seed)
            number += 1
        if now >= epoch * EPOCH:
            epoch += 1
            grid.grow(longest, epoch)
        time.sleep(0.05)
