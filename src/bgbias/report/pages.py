"""What pages say of published results: every number stands between marks, from which it can be written again.

    <!-- from demo table1 -->...<!-- end -->                       a whole table with its caption, as the report prints it
    <!-- from demo table1 demo_90/contrastive/plain relative_drop .1 -->72.8<!-- end -->      a number, of digits behind the point
    <!-- from demo table1 demo_90/contrastive/plain relative_drop .1[] -->72.8 [71.1, 74.5]<!-- end -->     and its interval
    <!-- from demo demo_90: table1: Corrupted = MAP@R, corrupted | Drop, %; table2: Score -->...<!-- end -->
                                        columns of tables by their printed heads, or other ones; of all rows if none are named
    <!-- from attacks plain, at: table1: Clean; table9+stax@0.1: P@1 = P@1 under STAX -->...<!-- end -->
                                        a column of rows that have this behind their method, in the rows of the method itself
    <!-- from demo made minutes -->8.1<!-- end -->                 what made.yaml says

A row is named by any part of dataset/backbone/loss/method that no other row has; in ``seeds`` the seed stands behind it. Several
rows of a table: parts with commas between them. A figure needs no mark: whatever link leads into the results' folder shows one.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from bgbias.engine import accept
from bgbias.errors import UserError
from bgbias.files.places import RESULTS
from bgbias.report import columns as words
from bgbias.report import formats, names, tables
from bgbias.report.columns import Column
from bgbias.results import publication
from bgbias.results.publication import SEEDS, Publication
from bgbias.results.rows import MODEL, Model

BEGIN = "<!-- from "
MARK = re.compile(r"(<!-- from ([^>]+?) -->)((?:(?!<!--).)*?)(<!-- end -->)", re.DOTALL)
FIGURE = re.compile(r"\]\(((?:[^)\s]*/)?)([\w-]+)/([\w-]+\.png)\)")
CHOSEN = re.compile(rf"(?:(?P<rows>[^:;|=]+):)?\s*(?P<tables>(?:table\d+(?:\+\S+)?|{SEEDS}): .*)", re.DOTALL)
DIGITS = re.compile(r"(\+?)\.(\d)(\[\])?")
# Paragraphs of captions that say which code made a table: once a page is enough.
NOTES = (accept.EARLIER, publication.SINCE, publication.BEFORE)
OF_SEEDS = (
    Column("Corrupted", words.number("corrupted", 1)),
    Column("Clean", words.number("clean", 1)),
    Column("Drop, %", words.number("relative_drop", 1)),
)


def pages() -> list[Path]:
    """README and every page of the documents."""
    return [Path("README.md"), *sorted(Path("docs").rglob("*.md"))]


def shown_figures(page: Path, text: str) -> Iterator[tuple[str, str]]:
    """Grid and file of every figure of published results that a page shows."""
    for link in FIGURE.finditer(text):
        folder = Path(os.path.normpath(page.parent / link[1]))
        if folder == RESULTS:
            yield link[2], link[3]


def shown_tables(text: str) -> Iterator[tuple[str, str]]:
    """Grid and table of everything that a page says of published results; ``made.yaml`` is no table."""
    for _, asked, *_ in MARK.findall(text):
        grid, _, rest = asked.partition(" ")
        yield from ((grid, name) for name in re.findall(rf"\b(table\d+|{SEEDS})\b", rest))


def written(page: Path, text: str, results: Callable[[str], Publication]) -> str:
    """A page's text with everything between marks as published results have it; ``results`` are those of a grid.

    Raises UserError that names the page and the mark when there is nothing of that name.
    """

    notes: set[tuple[str, str]] = set()

    def say(found: re.Match[str]) -> str:
        try:
            said = _said(" ".join(found[2].split()), results, notes)
            if "\n" not in said and re.search(r"(^|\n)$", text[: found.start()]):
                raise UserError("It begins a line, which Markdown takes for HTML; move it behind a word.")
        except UserError as error:
            raise UserError(f"{page}: the mark '{' '.join(found[2].split())}': {error}") from error
        return found[1] + said + found[4]

    if (begun := text.count(BEGIN)) != len(MARK.findall(text)):
        raise UserError(
            f"{page}: of {begun} marks {len(MARK.findall(text))} have an end; each needs its <!-- end -->."
        )
    return MARK.sub(say, text)


def model(name: str, models: Iterable[Model]) -> list[Model]:
    """The models that a part of dataset/backbone/loss/method names, all words of it in their order."""
    wanted = name.split("/")

    def fits(parts: Sequence[str]) -> bool:
        left = iter(map(str, parts))
        return all(word in left for word in wanted)

    return [found for found in models if fits(found)]


def one_model(name: str, models: Sequence[Model]) -> Model:
    """The only model of that name. Raises UserError if there is none, or several, with those that it may mean."""
    found = model(name, models)
    if len(found) == 1:
        return found[0]
    every = ["/".join(map(str, m)) for m in models]
    if not found:
        near = difflib.get_close_matches(name, every, 3, cutoff=0) or every
        raise UserError(f"There is no row '{name}'; near it: {', '.join(near)}.")
    raise UserError(
        f"'{name}' names {len(found)} rows; write one of: {', '.join('/'.join(map(str, m)) for m in found)}."
    )


def _said(asked: str, results: Callable[[str], Publication], notes: set[tuple[str, str]]) -> str:
    grid, _, rest = asked.partition(" ")
    published = results(grid)
    if chosen := CHOSEN.fullmatch(rest):
        return _columns(published, chosen["rows"] or "", chosen["tables"])
    match rest.split(" "):
        case ["made", key]:
            return str(_known(published.made, key, f"{published.folder / publication.MADE} has no"))
        case [name] if name == SEEDS:
            return _columns(published, "", "; ".join(f"{SEEDS}: {c.head}" for c in OF_SEEDS))
        case [name]:
            return "\n" + formats.markdown(published.table(name), name, _caption(published, name, notes))
        case [name, row, column, digits] if form := DIGITS.fullmatch(digits):
            table = published.table(name)
            keys = [*MODEL, "seed"] if name == SEEDS else MODEL
            place = one_model(row, list(table[keys].itertuples(index=False, name=None)))
            (values,) = publication.lines(table[(table[keys] == list(place)).all(axis=1)])
            _known(values, column, f"{published.folder / name}.csv has no column")
            return words.Number(column, int(form[2]), bool(form[1]), bool(form[3]))(values)
    raise UserError("It is not written like any that src/bgbias/report/pages.py explains.")


def _caption(published: Publication, name: str, notes: set[tuple[str, str]]) -> str:
    """That of a table, without the ``notes`` on its code that the page has under an earlier table of this grid."""
    kept = []
    for paragraph in published.caption(name).split("\n\n"):
        note = (published.folder.name, paragraph)
        if note not in notes:
            kept.append(paragraph)
        if paragraph.startswith(NOTES):
            notes.add(note)
    return "\n\n".join(kept)


def _known(values: dict[str, Any], key: str, refusal: str) -> object:
    if key not in values:
        near = difflib.get_close_matches(key, values, 3, cutoff=0)
        raise UserError(f"{refusal} {key}; near it: {', '.join(near)}.")
    return values[key]


def _columns(published: Publication, rows: str, asked: str) -> str:
    """A row a model, with columns of several tables."""
    lines: dict[Model, dict[str, str]] = {}
    heads: list[str] = []
    for part in asked.split(";"):
        name, _, chosen = part.strip().partition(": ")
        for wish in chosen.split("|"):
            head, _, title = (word.strip() for word in wish.partition("="))
            heads.append(title or head)
            for place, text in _texts(published, name, head).items():
                lines.setdefault(place, {})[heads[-1]] = text
    models = (
        [m for wanted in rows.split(",") for m in _some(wanted.strip(), list(lines))] if rows else list(lines)
    )
    told: dict[str, Callable[[str], str]] = {
        "dataset": names.dataset,
        "backbone": str,
        "loss": names.loss,
        "method": names.method,
    }
    # What is the same in all rows goes without saying, but for the method.
    labels = [i for i, key in enumerate(MODEL) if key == "method" or len({m[i] for m in models}) > 1]
    said = [
        [told[MODEL[i]](m[i]) for i in labels] + [lines[m].get(head, words.NOTHING) for head in heads]
        for m in models
    ]
    above = [[*("training" if MODEL[i] == "method" else MODEL[i] for i in labels), *heads]]
    above.append([*["---"] * len(labels), *["---:"] * len(heads)])
    return "\n" + "".join(f"| {' | '.join(line)} |\n" for line in [*above, *said])


def _some(name: str, models: Sequence[Model]) -> list[Model]:
    return model(name, models) or [one_model(name, models)]


def _texts(published: Publication, name: str, head: str) -> dict[Model, str]:
    """What a table prints in a column, by model; of ``seeds``, what each seed has, in their order. ``table9+x``: by model, what
    it prints in the row that has ``+x`` behind the model's method.
    """
    name, *behind = name.partition("+")
    after = "".join(behind)
    table = published.table(name)
    if after:
        table = table[table["method"].str.endswith(after)]
        table = table.assign(method=table["method"].str.removesuffix(after))
        if table.empty:
            raise UserError(f"{published.folder / name}.csv has no row '...{after}'.")
    there = OF_SEEDS if name == SEEDS else tables.load(name).COLUMNS
    named = [column for column in there if column.head == head]
    if len(named) != 1:
        several = f"has {len(named)} columns" if named else "has no column"
        raise UserError(f"{name} {several} '{head}'; it has: {' | '.join(c.head for c in there)}.")
    texts: dict[Model, list[str]] = {}
    for row in publication.lines(table):
        place: Model = tuple(row[key] for key in MODEL)  # type: ignore[assignment]
        try:
            texts.setdefault(place, []).append(formats.entry(named[0], row))
        except KeyError as error:
            raise UserError(
                f"{published.folder / name}.csv has no column {error}: it is of older code."
            ) from error
    return {place: ", ".join(of_seeds) for place, of_seeds in texts.items()}
