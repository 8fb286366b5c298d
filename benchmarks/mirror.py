"""What the mirror into MLflow takes of a core: its start, while short steps end one after the other, and when nothing happens."""

import itertools
import json
import os
import shutil
import sys
import time
from functools import cache, partial
from pathlib import Path
from typing import Any

import psutil

from benchmarks import Case, Figure, Measured, result
from benchmarks._project import BEFORE, STEPS, environment, run_smallest, scratch_folder
from bgbias.files import json_checksum

WORKING, IDLE = "steps that end one after the other", "nothing happens"
# In half seconds: how often a step ends, and an epoch of the training beside them.
EACH, EPOCH = 3, 2
LONGEST = 10_000  # the seed of that training
# What the record of a step at work does not have yet.
OF_FINISHED = ("finished", "outputs", "inputs", "metrics", "seconds", "peak_memory_mb", "vitals", "notes")
HISTORY = Path("data/work/partial/history.csv")


def mirror(
    device: str, finished: int = 10, idle: int = 750, working_seconds: int = 90, idle_seconds: int = 40
) -> Case:
    """``finished``: models whose steps have ended before others go on; ``idle``: models beside which nothing happens."""
    made = scratch_folder()
    run_smallest(made)
    few, many = (len(BEFORE) + len(STEPS) * models for models in (finished, idle))

    def each(m: Measured) -> float:
        return float((m.results[IDLE]["start"] - m.results[WORKING]["start"]) / max(1, many - few))

    # Once: what counts are its seconds of the processor, which need no rounds.
    working = cache(partial(_watch, made, finished, working_seconds, is_working=True))
    return Case(
        ours={WORKING: working, IDLE: cache(partial(_watch, made, idle, idle_seconds, is_working=False))},
        figures=[
            Figure(f"its start, with {few} records, on a new database", result(WORKING, "start"), unit="s"),
            Figure("each further record that is there at its start", each, unit="s"),
            Figure(
                f"share of a core while a step ends every {EACH / 2} s",
                result(WORKING, "share"),
                at_most=0.03,
            ),
            Figure(f"share of a core beside {many:,} finished steps", result(IDLE, "share"), at_most=0.01),
        ],
    )


def _watch(made: Path, models: int, seconds: int, is_working: bool) -> dict[str, float]:
    """Seconds of a processor: until what was there at the start is shown, and of each second after that."""
    folder = scratch_folder()
    shutil.copytree(made, folder, dirs_exist_ok=True)
    for seed, step in itertools.product(range(1, models), STEPS):
        _end(folder, step, seed, has_weights=is_working)
    words = [sys.executable, "-m", "bgbias", "track", "--follow", str(os.getpid())]
    process = psutil.Popen(words, cwd=folder, env=environment())
    try:
        _wait_until_shown(process)
        start, begun = _measure_seconds(process), time.monotonic()
        if is_working:
            _work(folder, models, seconds)
        else:
            time.sleep(seconds)
        share = (_measure_seconds(process) - start) / (time.monotonic() - begun)
    finally:
        process.terminate()
        process.wait()
    return {"start": start, "share": share}


def _measure_seconds(process: psutil.Popen) -> float:
    """What a process has taken of the processor."""
    times = process.cpu_times()
    return float(times.user + times.system)


def _wait_until_shown(process: psutil.Popen) -> None:
    """Wait until all that was there is shown: until next to nothing was done for three looks."""
    before, quiet = 0.0, 0
    while quiet < 3:
        time.sleep(2)
        now = _measure_seconds(process)
        quiet = quiet + 1 if 2 < now < before + 0.2 else 0
        before = now


def _work(folder: Path, first: int, seconds: int) -> None:
    """Steps of further models, one after the other, beside a long training whose curve grows."""
    history = folder / HISTORY
    history.parent.mkdir(parents=True, exist_ok=True)
    history.write_text("epoch,loss,val_map_at_r,train_seconds,validate_seconds\n")
    _begin(folder, "train", LONGEST)
    steps = [(step, seed) for seed in range(first, first + seconds) for step in STEPS]
    _begin(folder, *steps[0])
    for tick in range(1, 1 + 2 * seconds):
        time.sleep(0.5)
        if tick % EPOCH == 0:
            epoch = tick // EPOCH
            with history.open("a") as file:
                file.write(f"{epoch},{1 / epoch:.4f},{0.5 - 0.3 / epoch:.4f},1.5,0.5\n")
        if tick % EACH == 0:
            _end(folder, *steps[tick // EACH - 1])
            _begin(folder, *steps[tick // EACH])


# Records of the first model under other seeds, as its steps write them.


def _begin(folder: Path, step: str, seed: int) -> None:
    unknown = dict.fromkeys(OF_FINISHED)
    at_work = {"status": "running", "pid": os.getpid(), "history": str(HISTORY)}
    json_checksum.write(_running(folder, step, seed), _record(folder, step, seed)[1] | unknown | at_work)


def _end(folder: Path, step: str, seed: int, has_weights: bool = True) -> None:
    path, record = _record(folder, step, seed)
    for output in record["outputs"] if step == "train" and has_weights else ():
        (folder / output).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(folder / output.replace(f"seed{seed}", "seed0"), folder / output)
    json_checksum.write(path, record)
    _running(folder, step, seed).unlink(missing_ok=True)


def _record(folder: Path, step: str, seed: int) -> tuple[Path, dict[str, Any]]:
    """Where the record of a finished step belongs, and what it says."""
    name = "run" if step == "train" else step
    first = next(folder.glob(f"data/runs/**/seed0/{name}.json"))
    text = first.read_text(encoding="utf-8").replace('"seed": 0', f'"seed": {seed}')
    return Path(str(first).replace("seed0", f"seed{seed}")), json.loads(text.replace("seed0", f"seed{seed}"))


def _running(folder: Path, step: str, seed: int) -> Path:
    return folder / f"data/work/running/{step}_{seed}.json"
