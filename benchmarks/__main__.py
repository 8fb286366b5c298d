"""`python -m benchmarks [NAME ...]`: measure speed on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from benchmarks import _bench
from bgbias.cli import run_reporting_errors

app = typer.Typer(add_completion=False)


@app.command()
def bench(
    names: Annotated[
        list[str] | None, typer.Argument(help="Comparisons; all of the device if none is given.")
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(min=1, help="Rounds; each comparison's own number if not given.")
    ] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda; a GPU that is absent is an error.")] = "cpu",
    write: Annotated[
        Path | None, typer.Option(help="Also put the figures into this Markdown file.", show_default=False)
    ] = None,
    tiny: Annotated[bool, typer.Option(help="Sizes that say nothing of speed: does everything run?")] = False,
) -> None:
    """Measure speed on this machine against what people would run instead, and against the machine's limits."""
    _bench.bench(names or (), device, rounds, write, tiny)


if __name__ == "__main__":
    run_reporting_errors(app)
