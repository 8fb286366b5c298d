"""`python -m benchmarks`: every comparison that the machine can make, one after the other, and where the figures go."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import _report, surroundings
from benchmarks._project import cores
from benchmarks._report import Record
from bgbias import plugins
from bgbias.compute.device import pick
from bgbias.errors import UserError
from bgbias.files.atomic import write_text
from bgbias.progress import say

FOLDER = Path("data/work/bench")
ROUNDS = 5
# Each library asks for its number of threads by a name of its own.
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def bench(names: Sequence[str], device: str, rounds: int | None, write: Path | None, tiny: bool) -> None:
    """Make the comparisons (all that know the device if none is named) and print them; UserError if any broke."""
    if tiny and write:
        raise UserError(f"--tiny measures nothing that {write} could show; leave out one of the two.")
    if write:
        _report.place(write, device.partition(":")[0])
    chosen = comparisons(names, device)
    if device != "cpu":
        try:
            pick(device)
        except UserError as error:
            raise UserError(f"{error} These comparisons wait for one: {', '.join(chosen)}.") from None
    folder = FOLDER / ("tiny" if tiny else device)
    broken = []
    for number, name in enumerate(chosen, 1):
        say(f"[{number}/{len(chosen)}] {name}")
        record = folder / f"{name}.json"
        if _measured(name, device, rounds, record, tiny):
            print(_report.told(_read(folder, name)), flush=True)
        else:
            broken.append(name)
    measured = [_read(folder, name) for name in chosen if name not in broken]
    if write and measured:
        _keep(write, device.partition(":")[0], measured)
    if os.environ.get("BGBIAS_TRACK", "1") != "0" and not tiny:
        _report.log(measured)
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


def source(name: str) -> str:
    """The digest of the comparison's own file."""
    return hashlib.sha256(Path(str(plugins.load("benchmarks", name).__file__)).read_bytes()).hexdigest()


def _keep(page: Path, device: str, measured: Sequence[Record]) -> None:
    """Put records beside the page in the place of earlier ones, drop those of comparisons that are gone, and show all of them."""
    folder = page.with_suffix("") / device
    for record in measured:
        write_text(folder / f"{record['comparison']}.json", json.dumps(record, indent=1) + "\n")
    known = plugins.names("benchmarks")
    for path in folder.glob("*.json"):
        if path.stem not in known:
            path.unlink()
    shown = [_read(folder, name) for name in known if (folder / f"{name}.json").exists()]
    changed = [record["comparison"] for record in shown if record["source"] != source(record["comparison"])]
    if changed:
        say(
            f"These were measured before they were changed; measure them again: python -m benchmarks {' '.join(changed)}"
        )
    _report.write(page, device, shown, changed)


def _read(folder: Path, name: str) -> Record:
    """A comparison's record."""
    return dict(json.loads((folder / f"{name}.json").read_text(encoding="utf-8")))


def _measured(name: str, device: str, rounds: int | None, record: Path, tiny: bool) -> bool:
    """Whether the comparison's process wrote its record."""
    module = plugins.load("benchmarks", name)
    threads = str(module.THREADS or cores())
    count = rounds or getattr(module, "ROUNDS", ROUNDS)
    record.unlink(missing_ok=True)  # figures of before are not those of a comparison that breaks now
    words = [name, device, str(count), str(record)] + ["tiny"] * tiny
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks._measure", *words],
        env=surroundings(**dict.fromkeys(THREADS, threads)),
    )
    return done.returncode == 0
