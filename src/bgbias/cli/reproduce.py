"""Results that the project's pages show: published by a command, and made again by whoever doubts them."""

import os
import shlex
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from bgbias.cli.arguments import DEFAULT, Grid, Params, argument, option
from bgbias.engine import graph
from bgbias.errors import UserError
from bgbias.files import json_checksum
from bgbias.files.atomic import write_text
from bgbias.study.params import Study, load, read

app = typer.Typer()
SOURCE = "src/bgbias"


@app.command()
def publish(
    grid: Grid = None,
    params: Params = DEFAULT,
    check: Annotated[bool, option("publish", "check", "--check")] = False,
) -> None:
    """Copy a grid's finished report into docs/results, and write its numbers into README.md; without a grid, README.md alone."""
    from bgbias.report import pages
    from bgbias.results import publication

    if grid and not check:
        print(publication.publish(load(params, grid), pages.shown_figures(grid)))
    text = pages.README.read_text(encoding="utf-8") if pages.README.exists() else ""
    filled = pages.filled_readme(text)
    if filled == text:
        return
    if check:
        print(f"The numbers of {pages.README} are not those of {publication.RESULTS}: make publish")
        raise typer.Exit(1)
    write_text(pages.README, filled)
    print(pages.README)


@app.command()
def reproduce(
    grid: Annotated[str | None, argument("reproduce", "grid")] = None,
    row: Annotated[str | None, argument("reproduce", "row")] = None,
    fresh: Annotated[bool, option("reproduce", "fresh", "--fresh")] = False,
    params: Params = DEFAULT,
) -> None:
    """Make published results again and compare each number: identical, within the interval, or different (exit status 1)."""
    from bgbias.report import pages, reproduction
    from bgbias.results import publication, rows

    if grid is None:
        print(_list_results())
        return
    if noted := publication.noted_tables().get(grid):
        raise typer.Exit(not _are_tables_alike(noted))
    published, study = publication.read(grid), load(params, grid)
    model = pages.one_model(row, published.models()) if row else None
    if why := publication.reason_not_here(study):
        raise UserError(
            f"{grid} cannot be made on this machine: {why}. What is missing: bgbias data --grid {grid}"
        )
    target = reproduction.row_of(study, model) if model else study
    again, steps = _run(params, target, is_row=model is not None, fresh=fresh)
    before = {name: published.table(name) for name in (*published.tables, publication.SEEDS)}
    paths = {name: again.files.at("table_csv", table=name) for name in publication.table_names(again)}
    now = {name: rows.read_csv(path) for name, path in paths.items()} | {
        publication.SEEDS: rows.levels(again)
    }
    comparisons = reproduction.compare(before, now, [model] if model else None)
    selected = [c for c in comparisons if model or c.verdict != reproduction.IDENTICAL]
    if selected:
        print(reproduction.format_comparisons(selected), end="\n\n")
    print(reproduction.sentence(comparisons))
    origin, birth = published.origin, publication.birth(again)
    print(
        f"Published: {_format_machine(origin)}, commit {origin['commit'][:12]}. Now: {_format_machine(birth)}; {steps}."
    )
    if sections := publication.changed_sections(published, study):
        print(f"params.yaml has changed since, in: {', '.join(sections)}.")
    if footnote := changed_source(origin["commit"]):
        print(footnote)
    raise typer.Exit(reproduction.verdict(comparisons) == reproduction.DIFFERENT)


def changed_source(commit: str) -> str:
    """How many source files have changed since a commit, and how to see the changes; empty without git or that commit."""
    from bgbias.report import prose

    commit = commit.partition(" ")[0]
    command = ["git", "diff", "--name-only", commit, "--", SOURCE]
    try:
        names = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    except (OSError, subprocess.CalledProcessError):
        return ""
    files = [name.removeprefix(f"{SOURCE}/") for name in names]
    return " ".join(
        prose.fill_macro("reproduction.j2", "changed", files=files, source=SOURCE, commit=commit[:12])
    )


def _run(params: Path, target: Study, is_row: bool, fresh: bool) -> tuple[Study, str]:
    """Run the workflow for a grid, or for one row of it, whose tables lie apart; gives where it was made, and what ran."""
    file = _write_variant(params, target, is_row, fresh) if is_row or fresh else params
    again = load(file, target.grid)
    ends = [node for node in graph.goals(again) if node.name == "table" or not is_row]
    targets = [str(node.record(again)) for node in ends] if is_row else []
    begun = datetime.now(UTC).isoformat(timespec="seconds")
    command = [sys.executable, "-m", "snakemake", "--cores", "all", "--quiet", "rules"]
    command += ["--config", f"grid={again.grid}", f"params={file}", "--", *targets]
    done = subprocess.run(command, env=os.environ | {"BGBIAS_TRACK": "0"}, check=False)
    if done.returncode:
        raise UserError(
            "The run did not end well; what it said stands above. The same command goes on with it."
        )
    every = [json_checksum.read_any(node.record(again)) for node in graph.in_order(again, ends)]
    ran = sum(record.get("finished", "") >= begun for record in every)
    return again, f"{ran} of {len(every)} steps ran"


def _write_variant(params: Path, target: Study, is_row: bool, fresh: bool) -> Path:
    """The study's file with the models of ``target`` alone, and folders of their own for what is made."""
    folder = target.files.at("reproduced")
    if fresh:
        shutil.rmtree(folder / "fresh", ignore_errors=True)
        paths = {root: str(folder / "fresh" / root) for root in ("work", "runs", "report")}
    else:
        paths = {"report": str(folder / "rows")}
    settings = read(params)
    settings |= {"grid": target.grid, "paths": settings.get("paths", {}) | paths}
    settings["plugins"] = [os.path.relpath(params.parent / plugins, folder) for plugins in target.plugins]
    if is_row:
        cells = [block.model_dump(mode="json", exclude_defaults=True) for block in target.cells]
        settings["grids"][target.grid] |= {"cells": cells}
    write_text(folder / "params.yaml", yaml.safe_dump(settings, sort_keys=False))
    return folder / "params.yaml"


def _are_tables_alike(noted: dict[str, Any]) -> bool:
    """Run the command that made a study's tables; whether they are what they were, number by number, which is said of each."""
    from bgbias.results.rows import read_csv

    before = {table: read_csv(Path(table)) for table in noted["tables"]}
    print(f"$ {noted['command']}", flush=True)
    if subprocess.run(shlex.split(noted["command"]), check=False).returncode:
        raise UserError(
            f"{noted['command']} failed (above); what is finished is kept: run the same command again."
        )
    are_alike = True
    for table, old in before.items():
        new = read_csv(Path(table))
        if new.equals(old):
            print(f"{table}: identical")
            continue
        are_alike = False
        if new.shape != old.shape or list(new) != list(old):
            print(
                f"{table}: different: {new.shape[0]} rows of {new.shape[1]} columns, published {old.shape[0]} of {old.shape[1]}"
            )
            continue
        unlike = [name for name in map(str, old) if not new[name].equals(old[name])]
        now, published = (one[unlike].select_dtypes("number") for one in (new, old))
        apart = (now - published).abs().max().dropna()
        # Words, or numbers that are there once alone, have no distance.
        most = f"up to {apart.max():.3g}, in {apart.idxmax()}" if len(apart) else f"in {', '.join(unlike)}"
        print(f"{table}: different: {most}; git diff {table}")
    return are_alike


def _list_results() -> str:
    """All published results, one grid or table a line: where they are shown, how they are made again, and what that takes."""
    import pandas as pd

    from bgbias.report import pages
    from bgbias.results import publication

    published: list[tuple[str, str, str, dict[str, Any]]] = []
    for grid in publication.grids():
        mentions = pages.pages_with(rf'\w+\("{grid}"')
        published.append((grid, mentions, f"bgbias reproduce {grid}", publication.read(grid).origin))
    for kind, noted in publication.noted_tables().items():
        mentions = pages.pages_with(rf'evidence\("{kind}"')
        published += [(table, mentions, noted["command"], row) for table, row in noted["tables"].items()]
    rows = [(*what, row["minutes"], row["commit"][:8], _format_machine(row)) for *what, row in published]
    heads = ["results", "shown in", "made again by", "minutes", "commit", "machine"]
    return pd.DataFrame(rows, columns=heads).to_string(index=False)


def _format_machine(origin: dict[str, Any]) -> str:
    return f"{origin['machine']}, {origin['cores']} cores"
