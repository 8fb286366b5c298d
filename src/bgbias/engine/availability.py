"""What every dataset of a study still needs: which files are there, which can be fetched, which only a person can get."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bgbias import plugins
from bgbias.engine import records
from bgbias.engine.node import step
from bgbias.errors import for_this_study
from bgbias.files import places
from bgbias.files.fetch import Source, partial_download
from bgbias.study import Study, plan
from bgbias.study.sources import parts_of

WIDTH_WHEN_PIPED = 100


@dataclass(frozen=True)
class Arrival:
    """The state of one part, its size in bytes where known, and what to do next."""

    dataset: str
    part: str
    state: str
    size: int | None
    step: str


def arrivals(study: Study, only_grid: bool = False) -> Iterator[Arrival]:
    """Every part of every dataset of params.yaml (or of the grid's alone), in its order."""
    used = {c.dataset for c in plan.cells(study)}
    for dataset in study.datasets:
        if only_grid and dataset not in used:
            continue
        kind = study.datasets[dataset].kind
        if kind not in plugins.names("datasets"):
            yield Arrival(dataset, "", f"no kind '{kind}'", None, f"write src/bgbias/datasets/{kind}.py")
            continue
        parts = parts_of(study, dataset)
        indexed = records.read_current(study, step("index", dataset=dataset))
        last = "" if indexed else f"python -m bgbias index {dataset}"
        if not parts:
            yield Arrival(dataset, "", "rendered", None, last)
        for part, sources in parts.items():
            yield _arrival(study, dataset, part, sources, last)


def show(study: Study, only_grid: bool = False) -> None:
    """Print the arrivals as a table: as wide as the terminal, or 100 columns into a file or pipe."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("dataset", "part", "state"):
        table.add_column(column, no_wrap=column == "dataset")
    table.add_column("size", justify="right", no_wrap=True)
    table.add_column("next step", overflow="fold")
    previous = ""
    for a in arrivals(study, only_grid):
        size = f"{a.size / 1e6:,.1f} MB" if a.size is not None else ""
        dataset = a.dataset if a.dataset != previous else ""
        table.add_row(*map(Text, (dataset, a.part, a.state, size, for_this_study(a.step))))
        previous = a.dataset
    console = Console(width=None if sys.stdout.isatty() else WIDTH_WHEN_PIPED)
    console.print(table)
    command = f"snakemake --cores all --config grid={study.grid} -- data"
    console.print(Text(for_this_study(f"All that the grid needs and can be fetched: {command}")))


def _arrival(study: Study, dataset: str, part: str, sources: tuple[Source, ...], last: str) -> Arrival:
    target = study.files.at("part", dataset=dataset, part=part)
    size = next((s.size for s in sources if s.size), None)
    fetch = f"python -m bgbias fetch {dataset} {part}"
    if target.exists() and records.read_current(study, step("fetch", dataset=dataset, part=part)):
        return Arrival(dataset, part, "there", target.stat().st_size, last)
    folder = Path(study.paths.downloads)
    by_hand = next((folder / s.file for s in sources if s.file and (folder / s.file).exists()), None)
    if by_hand:
        return Arrival(dataset, part, f"in {folder}", by_hand.stat().st_size, fetch)
    begun = [p for s in sources if s.remote and (p := partial_download(target, s)).exists()]
    if begun:
        have = max(p.stat().st_size for p in begun)
        amount = f" of {size / 1e6:,.1f}" if size else ""
        return Arrival(dataset, part, f"partly downloaded, {have / 1e6:,.1f}{amount} MB", size, fetch)
    local = [places.source(s.place) for s in sources if s.place and not s.remote]
    file = next((p for p in local if p.exists()), None)
    if file:
        return Arrival(dataset, part, "to fetch", file.stat().st_size if file.is_file() else None, fetch)
    if any(s.remote for s in sources):
        return Arrival(dataset, part, "to fetch", size, fetch)
    if local:
        cure = f"put it at {local[0]}, or edit datasets.{dataset}.options"
        return Arrival(dataset, part, "missing file", None, cure)
    published = next(s for s in sources if s.file)
    return Arrival(dataset, part, "by hand", size, f"put {published.file}{published.facts} into {folder}/")
