"""`python -m benchmarks [NAME ...]`: measure speed on this machine, one comparison after the other."""

import difflib
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks import CASES, _report
from benchmarks._project import CORES, environment
from bgbias.cli import run_reporting_errors
from bgbias.compute.device import pick
from bgbias.errors import UserError
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
    kind = device.partition(":")[0]
    chosen = comparisons(names or (), kind)
    if device != "cpu":
        pick(device)
    folder = FOLDER / ("tiny" if tiny else device)
    records = []
    for number, name in enumerate(chosen, 1):
        say(f"[{number}/{len(chosen)}] {name}")
        record = measure(name, device, rounds or CASES[name].rounds, folder / f"{name}.json", tiny)
        if record:
            records.append(record)
            print(_report.table([record]), flush=True)
    if write and records:
        _report.publish(write, kind, records, CASES)
    if broken := set(chosen) - {record["comparison"] for record in records}:
        raise UserError(f"These broke, see above: {', '.join(broken)}. The other figures are in {folder}.")


def comparisons(names: Sequence[str], device: str) -> list[str]:
    """The comparisons that are named, or all of the device; any other name is an error."""
    available = [name for name, comparison in CASES.items() if device in comparison.devices]
    for name in names:
        if name not in available:
            near = difflib.get_close_matches(name, available, 1)
            hint = f" Did you mean '{near[0]}'?" if near else ""
            there = ", ".join(available)
            raise UserError(f"There is no comparison '{name}' on {device}; there are: {there}.{hint}")
    return [*names] or available


def measure(name: str, device: str, rounds: int, record: Path, tiny: bool) -> dict[str, Any]:
    """The record of a comparison, made in a process of its own; empty if it broke."""
    record.unlink(missing_ok=True)  # figures of before are not those of a comparison that breaks now
    threads = dict.fromkeys(THREADS, str(CASES[name].threads or CORES))
    arguments = (name, device, rounds, tiny, str(record))
    code = f"from benchmarks._measure import measure; measure(*{arguments})"
    done = subprocess.run([sys.executable, "-c", code], env=environment(**threads))
    return dict(json.loads(record.read_text(encoding="utf-8"))) if done.returncode == 0 else {}


if __name__ == "__main__":
    run_reporting_errors(app)
