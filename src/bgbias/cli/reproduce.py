"""Results that the project's pages show: written there by a command, checked, and made again by whoever doubts them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bgbias.cli.arguments import DEFAULT, Grid, Params
from bgbias.errors import UserError
from bgbias.study.params import Study, load

if TYPE_CHECKING:
    from bgbias.results.publication import Publication
    from bgbias.results.rows import Model

app = typer.Typer()
MOST_EDITED = 3  # edited files that a message names


@app.command()
def publish(
    grid: Grid = None,
    params: Params = DEFAULT,
    check: Annotated[
        bool, typer.Option(help="Write nothing; fail where pages, results and code differ.")
    ] = False,
    accept: Annotated[
        str | None,
        typer.Option(
            help="Why code that was edited since computes the same: the grid's published results stay, and say it.",
            show_default=False,
        ),
    ] = None,
    keep: Annotated[
        str | None,
        typer.Option(
            help="How results differ from what code that was edited since computes: they stay until made again, and say it.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Put a grid's finished report into docs/results and write the pages that show it; without a grid, all pages, figures and
    captions.
    """
    from bgbias.files.atomic import write_text
    from bgbias.report import pages, redrawn
    from bgbias.results import publication

    study = load(params, grid)
    word = accept if keep is None else keep
    if sum([check, accept is not None, keep is not None]) > 1:
        raise UserError("--check writes nothing, --accept and --keep say opposites: give one of them.")
    texts = {page: page.read_text(encoding="utf-8") for page in pages.pages() if page.exists()}
    shown = {(of, file) for page, text in texts.items() for of, file in pages.shown_figures(page, text)}
    if check:
        failures, notes = _checked(texts, shown, params)
        print("\n".join([*failures, *notes]), end="\n" * bool(failures or notes))
        raise typer.Exit(bool(failures))
    if word is not None:
        if not grid:
            raise UserError(
                'Name the grid whose published results stay: bgbias publish --grid demo --accept "why"'
            )
        leave = publication.accept if keep is None else publication.keep
        left = leave(publication.read(grid), study, word)
        print(left.folder)
        _tell_again(left, study)
    elif grid:
        figures = [file.removesuffix(".png") for of, file in sorted(shown) if of == grid]
        print(publication.take(study, figures).folder)
    elif damaged := _damaged(shown):
        raise UserError("\n".join(damaged))
    else:
        for of in publication.grids():
            own = load(params, of)
            for figure in redrawn.draw(publication.read(of), own):
                print(figure)
            _tell_again(publication.read(of), own)
    read = cache(publication.read)
    written = {page: pages.written(page, text, read) for page, text in texts.items()}
    for page, text in written.items():
        if text != texts[page]:
            write_text(page, text)
            print(page)


@app.command()
def reproduce(
    grid: Annotated[
        str | None,
        typer.Argument(
            help="A grid with published results; all are listed if not given.", show_default=False
        ),
    ] = None,
    row: Annotated[
        str | None,
        typer.Argument(
            help="Any part of dataset/backbone/loss/method that no other row has.", show_default=False
        ),
    ] = None,
    fresh: Annotated[
        bool,
        typer.Option(
            "--fresh", help="Make all of it, in a folder of its own; else only what is not current."
        ),
    ] = False,
    params: Params = DEFAULT,
) -> None:
    """Make published results again and compare them number by number: same, within their spread, or different (exit status 1)."""
    from bgbias.report import pages
    from bgbias.report import reproduction as repeat
    from bgbias.results import publication
    from bgbias.results.rows import MODEL

    if grid is None:
        print(_listed(params))
        return
    published, study = publication.read(grid), load(params, grid)
    model: Model | None = None
    if row is not None:
        models = published.table(published.tables[0])[MODEL].itertuples(index=False, name=None)
        try:
            model = pages.one_model(row, list(models))
        except UserError as error:
            raise UserError(f"{error} For example: bgbias reproduce {grid} DATASET/LOSS/METHOD") from error
    if why := publication.cannot_be_made_here(study):
        raise UserError(
            f"{grid} cannot be made on this machine: {why}. What is missing: bgbias data --grid {grid}"
        )
    other = publication.differing_settings(published, study)
    made, steps = _made(
        params, repeat.row_of(study, model) if model else study, row=model is not None, fresh=fresh
    )
    now = {name: publication.as_written(made.files.at("table_csv", table=name)) for name in _tables(made)}
    now |= {publication.SEEDS: publication.seeds(made)}
    before = {name: published.table(name) for name in (*published.tables, publication.SEEDS)}
    found = repeat.compare(before, now, [model] if model else None)
    shown = found if model else [one for one in found if one.verdict != repeat.SAME]
    said, birth = repeat.verdict(found), publication.birth(made)
    if shown:
        print(repeat.told(shown), end="\n\n")
    print(repeat.sentence(found))
    print(
        f"Published: {_place(published.made)}, commit {published.made['commit'][:12]}. Now: {_place(birth)}; {steps}."
    )
    if other:
        print(
            f"params.yaml says otherwise of the grid since it was published: {', '.join(other[:MOST_EDITED])}."
        )
    elif said == repeat.SAME:
        print(_vouched(published, study, made, model, birth["commit"]))
    raise typer.Exit(said == repeat.DIFFERENT)


def _made(params: Path, wanted: Study, row: bool, fresh: bool) -> tuple[Study, str]:
    """Run the workflow for a grid, or for one row of it, whose tables lie apart; gives where it was made, and what ran."""
    from bgbias.engine import graph, records

    file = _variant(params, wanted, row, fresh) if row or fresh else params
    made = load(file, wanted.grid)
    ends = [node for node in graph.goals(made) if node.name == "table" or not row]
    targets = [str(node.record(made)) for node in ends] if row else []
    begun = datetime.now(UTC).isoformat(timespec="seconds")
    command = ["--cores", "all", "--quiet", "rules", "--config", f"grid={made.grid}", f"params={file}"]
    done = subprocess.run(
        [sys.executable, "-m", "snakemake", *command, *(["--", *targets] if targets else [])],
        env=os.environ | {"BGBIAS_TRACK": "0"},
        check=False,
    )
    if done.returncode:
        raise UserError(
            "The run did not end well; what it said stands above. The same command goes on with it."
        )
    every = [records.of_any_time(node.record(made)) for node in graph.in_order(made, ends)]
    ran = sum(record.get("finished", "") >= begun for record in every)
    return made, f"{ran} of {len(every)} steps ran, the others were current" if ran < len(
        every
    ) else f"all {ran} steps ran"


def _variant(params: Path, wanted: Study, row: bool, fresh: bool) -> Path:
    """The study's file with the models of ``wanted`` alone, and folders of their own for what is made."""
    import yaml

    from bgbias.files.atomic import write_text
    from bgbias.study.params import read

    place = wanted.files.at("reproduced")
    if fresh:
        shutil.rmtree(place / "fresh", ignore_errors=True)
        paths = {root: str(place / "fresh" / root) for root in ("work", "runs", "report")}
    else:
        paths = {"report": str(place / "rows")}
    written = read(params)
    written |= {"grid": wanted.grid, "paths": written.get("paths", {}) | paths}
    written["plugins"] = [os.path.relpath(params.parent / folder, place) for folder in wanted.plugins]
    if row:
        cells = [block.model_dump(mode="json", exclude_defaults=True) for block in wanted.cells]
        written["grids"][wanted.grid] |= {"cells": cells}
    write_text(place / "params.yaml", yaml.safe_dump(written, sort_keys=False))
    return place / "params.yaml"


def _vouched(published: Publication, study: Study, made: Study, model: Model | None, commit: str) -> str:
    """Record that code of now gives the published numbers, if it was that code alone which made them again."""
    from bgbias.engine import accept, graph
    from bgbias.report import reproduction as repeat
    from bgbias.results import publication

    if accepted := [told for goal in graph.goals(made) if (told := accept.told(made, goal))]:
        return f"{accepted[0]} With --fresh it is made by the code of now alone."
    edited, whole = publication.edited(published, study), model is None
    if not edited and not (whole and {"accepted", "kept"} & published.made.keys()):
        return "Made by the code of now, too."
    by = repeat.vouched(study, model) if model else edited
    proved = publication.vouch(published, study, by, commit, whole)
    left = f"; not yet of others: {_next(proved, study)}" if publication.edited(proved, study) else ""
    return f"{proved.folder / publication.MADE} says now that the code of now gives the same{left}."


def _tell_again(published: Publication, study: Study) -> None:
    from bgbias.report import retold

    for table in retold.tell(published, study):
        print(f"{published.folder}: the caption of {table}")


def _checked(
    texts: dict[Path, str], shown: set[tuple[str, str]], params: Path
) -> tuple[list[str], list[str]]:
    """What differs between pages, published files, settings and code; and results that are kept though this code makes others."""
    from bgbias.report import pages, redrawn, retold
    from bgbias.results import publication

    notes: list[str] = []
    failures, read = _damaged(shown), cache(publication.read)
    # Pages would take their numbers from what is damaged.
    for page, text in [] if failures else texts.items():
        try:
            if pages.written(page, text, read) != text:
                failures.append(f"{page} {_where(page, text)}; write it anew: make publish")
        except UserError as error:
            failures.append(str(error))
    for grid in publication.grids():
        published, again = read(grid), f"make run GRID={grid}, then make publish GRID={grid}"
        study = load(params, grid)
        failures += [
            f"{published.folder / file} is not what this code draws of the tables beside it: make publish"
            for file, _ in redrawn.differing(published, study)
        ]
        failures += [
            f"The caption of {table} in {published.folder} is not what this code says of the table: make publish"
            for table in retold.differing(published, study)
        ]
        other, edited = publication.differing_settings(published, study), publication.edited(published, study)
        notes += [
            f"{published.folder} was made before an edit that computes otherwise ({kept['because']}): {again}"
            for kept in published.made.get("kept", [])
        ]
        if not other and not edited:
            continue
        what = "settings" if other else "code"
        named = ", ".join((other or edited)[:MOST_EDITED]) + ", ..." * (len(other or edited) > MOST_EDITED)
        said = f"{published.folder} was made by other {what} than now ({named})"
        if why := publication.cannot_be_made_here(study):
            left = f' --grid {grid} --accept "why it computes the same" or --keep "how its results differ"'
            failures.append(
                f"{said}, and cannot be made again on this machine ({why}): "
                + (f"{again}, where they are" if other else f"bgbias publish{left}")
            )
        else:
            failures.append(f"{said}: {again if other else _next(published, study)}")
    failures += [
        f"There are no published results of a grid '{of}', of which a page shows {file}: make publish GRID={of}"
        for of, file in sorted(shown)
        if of not in publication.grids()
    ]
    return failures, notes


def _damaged(shown: set[tuple[str, str]]) -> list[str]:
    """Files of published results that are not those that were published, and figures that pages show and that were not."""
    from bgbias.results import publication

    return [
        f"{published.folder / file} is not what was published: git checkout {published.folder / file}, or"
        f" make run GRID={grid}, then make publish GRID={grid}"
        for grid in publication.grids()
        for published in [publication.read(grid)]
        for file in [
            *published.damaged(),
            *sorted({file for of, file in shown if of == grid} - published.made["files"].keys()),
        ]
    ]


def _where(page: Path, text: str) -> str:
    """Which mark of a page differs from its file, and how."""
    from bgbias.report import pages
    from bgbias.results import publication

    anew = pages.written(page, text, cache(publication.read))
    for old, new in zip(pages.MARK.finditer(text), pages.MARK.finditer(anew), strict=True):
        if old[3] != new[3]:
            line = text[: old.start()].count("\n") + 1
            folder = publication.RESULTS / old[2].split()[0]
            differing = [
                (a, b) for a, b in zip(old[3].splitlines(), new[3].splitlines(), strict=False) if a != b
            ]
            before, after = differing[0] if differing else (old[3], new[3])
            return f"line {line}: '{old[2]}' is not what {folder} has ('{before.strip()}', there '{after.strip()}')"
    return ""


def _next(published: Publication, study: Study) -> str:
    from bgbias.report import reproduction as repeat

    row = repeat.best_row(published, study)
    return f"bgbias reproduce {study.grid}{' ' + row if row else ''}"


def _listed(params: Path) -> str:
    """Every table of published results: where it is shown, how it is made again, and what that takes."""
    from bgbias.report import evidence, pages
    from bgbias.results import publication

    where: dict[tuple[str, str], list[str]] = {}
    texts = {page: page.read_text(encoding="utf-8") for page in pages.pages() if page.exists()}
    for page, text in texts.items():
        for grid, table in pages.shown_tables(text):
            where.setdefault((grid, table), []).append(str(page))
    lines: list[tuple[str, ...]] = [("table", "shown in", "again", "minutes", "commit", "machine")]
    for grid in publication.grids():
        published = publication.read(grid)
        made = published.made
        for table in (*published.tables, publication.SEEDS):
            pages_of = ", ".join(dict.fromkeys(where.get((grid, table), ["no page"])))
            lines.append(
                (
                    f"{grid} {table}",
                    pages_of,
                    f"bgbias reproduce {grid}",
                    str(made["minutes"]),
                    made["commit"][:8],
                    _place(made),
                )
            )
    for kind, made in evidence.kept():
        shown = ", ".join(str(page) for page, text in texts.items() if f"<!-- {kind} " in text)
        for name, born in made["tables"].items():
            told = str(born["minutes"]), born["commit"][:8], _place(born)
            lines.append((name, shown or "no page", made["command"], *told))
    return "\n".join(_columns(lines))


def _columns(lines: list[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    for line in lines:
        yield "  ".join(word.ljust(width) for word, width in zip(line, widths, strict=True)).rstrip()


def _place(made: dict[str, object]) -> str:
    return f"{made['machine']}, {made['cores']} cores" if "cores" in made else str(made["machine"])


def _tables(study: Study) -> tuple[str, ...]:
    from bgbias.report import tables

    return tables.wanted(study)
