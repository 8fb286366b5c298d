"""`bgbias bench`: every comparison that the machine can make, one after the other, and where the figures go."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from bgbias import plugins
from bgbias.benchmarks import _machine, _report
from bgbias.device import pick
from bgbias.errors import UserError
from bgbias.progress import say

FOLDER = Path("data/work/bench")
ROUNDS = 5
# Each library asks for its number of threads by a name of its own.
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def bench(names: Sequence[str], device: str, rounds: int | None, write: Path | None, tiny: bool) -> None:
    """Make the comparisons (all that know the device if none is named) and print them; UserError if any broke."""
    if device != "cpu":
        pick(device)
    chosen = comparisons(names, device)
    folder = FOLDER / ("tiny" if tiny else device)
    broken = []
    for number, name in enumerate(chosen, 1):
        say(f"[{number}/{len(chosen)}] {name}")
        record = folder / f"{name}.json"
        if _measured(name, device, rounds, record, tiny):
            print(_report.told(json.loads(record.read_text())), flush=True)
        else:
            broken.append(name)
    records = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    if write and records:
        _report.write(write, device, records, f"bgbias bench --device {device}")
    if os.environ.get("BGBIAS_TRACK", "1") != "0" and not tiny:
        from bgbias.benchmarks._tracked import log

        log([record for record in records if record["comparison"] in chosen])
    if broken:
        raise UserError(f"These broke, see above: {', '.join(broken)}. The other figures are in {folder}.")


def comparisons(names: Sequence[str], device: str) -> list[str]:
    """The comparisons that are named and known, or all of the device; an unknown or impossible one is refused."""
    modules = {name: plugins.load("benchmarks", name) for name in names or plugins.names("benchmarks")}
    able = [name for name, module in modules.items() if device.partition(":")[0] in module.DEVICES]
    unable = [name for name in names if name not in able]
    if unable:
        where = ", ".join(modules[unable[0]].DEVICES)
        raise UserError(
            f"'{unable[0]}' cannot be measured on {device}, only on: {where}. Name others, or none."
        )
    return able


def _measured(name: str, device: str, rounds: int | None, record: Path, tiny: bool) -> bool:
    """Whether the comparison's process wrote its record."""
    module = plugins.load("benchmarks", name)
    threads = str(module.THREADS or _machine.cores())
    count = rounds or getattr(module, "ROUNDS", ROUNDS)
    record.unlink(missing_ok=True)  # figures of before are not those of a comparison that breaks now
    words = [name, device, str(count), str(record)] + ["tiny"] * tiny
    done = subprocess.run(
        [sys.executable, "-m", "bgbias.benchmarks._process", *words],
        env={**os.environ, **dict.fromkeys(THREADS, threads)},
    )
    return done.returncode == 0
