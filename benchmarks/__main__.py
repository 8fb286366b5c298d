"""`python -m benchmarks [NAME ...]`: measure speed on this machine, one comparison after the other."""

from __future__ import annotations

import difflib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks import _report, surroundings
from benchmarks._cases import CASES
from benchmarks._project import cores
from bgbias.cli import run_reporting_errors
from bgbias.compute.device import pick
from bgbias.errors import UserError
from bgbias.files.atomic import write_text
from bgbias.progress import say

FOLDER = Path("data/work/bench")
# Each library asks for its number of threads by a name of its own.
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
app = typer.Typer(add_completion=False)


@app.command()
def bench(
    names: Annotated[
        list[str] | None, typer.Argument(help="Comparisons; all of the device if none is given.")
    ] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda; a GPU that is absent is an error.")] = "cpu",
    rounds: Annotated[
        int | None, typer.Option(min=1, help="Rounds; each comparison's own number if not given.")
    ] = None,
    write: Annotated[
        Path | None, typer.Option(help="Also put the figures into this Markdown file.", show_default=False)
    ] = None,
    tiny: Annotated[bool, typer.Option(help="Sizes that say nothing of speed: does everything run?")] = False,
) -> None:
    """Measure speed on this machine against what people would run instead, and against the machine's limits."""
    if tiny and write:
        raise UserError(f"--tiny measures nothing that {write} could show; leave out one of the two.")
    if write:
        _report.place(write, device.partition(":")[0])
    chosen = comparisons(names or (), device)
    if device != "cpu":
        try:
            pick(device)
        except UserError as error:
            raise UserError(f"{error} These comparisons wait for one: {', '.join(chosen)}.") from None
    folder = FOLDER / ("tiny" if tiny else device)
    measured, broken = [], []
    for number, name in enumerate(chosen, 1):
        say(f"[{number}/{len(chosen)}] {name}")
        record = measure(name, device, rounds or CASES[name].rounds, folder / f"{name}.json", tiny)
        if record:
            measured.append(record)
            print(_report.format_record(record), flush=True)
        else:
            broken.append(name)
    if write and measured:
        _keep(write, device.partition(":")[0], measured)
    if measured and os.environ.get("BGBIAS_TRACK", "1") != "0" and not tiny:
        _report.log(measured)
    if broken:
        raise UserError(f"These broke, see above: {', '.join(broken)}. The other figures are in {folder}.")


def comparisons(names: Sequence[str], device: str) -> list[str]:
    """The comparisons that are named and known, or all of the device; an unknown or impossible one is refused."""
    kind = device.partition(":")[0]
    for name in names:
        if name not in CASES:
            near = difflib.get_close_matches(name, CASES, 1)
            hint = f" Did you mean '{near[0]}'?" if near else ""
            raise UserError(f"There is no '{name}' in benchmarks; there are: {', '.join(CASES)}.{hint}")
        if kind not in CASES[name].devices:
            where = ", ".join(CASES[name].devices)
            raise UserError(
                f"'{name}' cannot be measured on {device}, only on: {where}. Name others, or none."
            )
    return [*names] or [name for name, case in CASES.items() if kind in case.devices]


def measure(name: str, device: str, rounds: int, record: Path, tiny: bool) -> dict[str, Any]:
    """The record of a comparison, made in a process of its own; empty if it broke."""
    record.unlink(missing_ok=True)  # figures of before are not those of a comparison that breaks now
    threads = dict.fromkeys(THREADS, str(CASES[name].threads or cores()))
    words = ["-m", "benchmarks._measure", name, device, str(rounds), str(record), *["tiny"] * tiny]
    done = subprocess.run([sys.executable, *words], env=surroundings(**threads))
    return dict(json.loads(record.read_text(encoding="utf-8"))) if done.returncode == 0 else {}


def _keep(page: Path, device: str, measured: Sequence[dict[str, Any]]) -> None:
    """Put records beside the page in the place of earlier ones, drop those of comparisons that are gone, and show all of them."""
    folder = page.with_suffix("") / device
    for record in measured:
        write_text(folder / f"{record['comparison']}.json", json.dumps(record, indent=1) + "\n")
    for path in folder.glob("*.json"):
        if path.stem not in CASES:
            path.unlink()
    shown = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
    _report.write(page, device, shown)


if __name__ == "__main__":
    run_reporting_errors(app)
