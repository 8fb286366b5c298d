"""Published results as Markdown, for pages that ask for them by a line of their own:

    {{ table("demo", "table1") }}                           a table of docs/results/demo with its caption
    {{ table("demo", "seeds") }}                            each training seed, a row a model
    {{ columns("demo", "table1: Corrupted = MAP@R, corrupted | Drop, %; table2: Score", "demo_90") }}
                                        columns of tables by their printed heads, or other ones; of these rows alone
    {{ columns("attacks", "table1: Clean; table9+stax@0.1: P@1 = P@1 under STAX", "plain, at") }}
                                        a column of rows that have this behind their method, in the rows of the method itself
    {{ number("demo", "table1", "demo_90/contrastive/plain", "relative_drop", 1) }}
                                        a number and its interval: 72.8 [71.1, 74.5]
    {{ change("demo", "table3", "demo_90/contrastive/bgaugment", "corrupted_difference", 1) }}
                                        a difference and its interval, * if it is significant: +37.6 [17.6, 57.5] *
    {{ origin("demo") }}                                    where, when and in how many minutes

The site fills them in as it is built (``docs/hooks/results.py``). README.md, which is read as it is, has each answer behind its
question, ``<!-- {{ ... }} -->answer<!-- end -->``, and ``bgbias publish`` writes it. A row is named by any part of
dataset/backbone/loss/method that no other row has.
"""

import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from textwrap import indent

import pandas as pd

from bgbias.errors import UserError
from bgbias.report import columns as words
from bgbias.report import formats, names, prose, tables
from bgbias.report.columns import Column
from bgbias.results import publication
from bgbias.results.publication import SEEDS, Publication
from bgbias.results.rows import MODEL, Model, records

README = Path("README.md")
LINE = re.compile(r"^\{\{ (.*) \}\}$", re.MULTILINE)
ANSWER = re.compile(r"(<!-- \{\{ ((?:(?!-->).)*) \}\} -->)(.*?)(<!-- end -->)", re.DOTALL)
Kind = Callable[[str, int], Callable[[words.Row], str]]
OF_SEEDS = (
    Column("Corrupted", words.number("corrupted", 1)),
    Column("Clean", words.number("clean", 1)),
    Column("Drop, %", words.number("relative_drop", 1)),
)
LABELS: dict[str, Callable[[str], str]] = {
    "dataset": names.dataset,
    "backbone": str,
    "loss": names.loss,
    "method": names.method,
}


def answer(question: str, macros: Mapping[str, Callable[..., str]]) -> str:
    """What a question such as ``table("demo", "table1")`` asks for. Raises UserError if it is none that is known."""
    from jinja2 import TemplateError

    known = re.fullmatch(r"(\w+)\(.*\)", question)
    try:
        if not known or known[1] not in macros:
            raise TypeError("no question")
        # The line's end is the template's own, and what a table ends with stays.
        return prose.environment(()).from_string("{{ " + question + " }}\n").render(macros)
    except (TemplateError, TypeError) as error:
        raise UserError(
            f"'{question}' is not written like any that src/bgbias/report/pages.py explains."
        ) from error


def filled_readme(text: str) -> str:
    """README.md's text with each answer as published results have it."""

    def refilled(mark: re.Match[str]) -> str:
        text = answer(mark[2], MACROS)
        return mark[1] + "\n" * text.endswith("\n") + text + mark[4]

    return ANSWER.sub(refilled, text)


def texts() -> dict[Path, str]:
    """The text of README and of every page of docs/."""
    paths = [README, *sorted(Path("docs").rglob("*.md"))]
    return {path: path.read_text(encoding="utf-8") for path in paths if path.exists()}


def shown_figures(grid: str) -> list[str]:
    """The figures of a grid that pages show."""
    link = re.compile(rf"\]\((?:\S*/)?{re.escape(grid)}/([\w-]+)\.png\)")
    return sorted({figure for text in texts().values() for figure in link.findall(text)})


def pages_with(question: str) -> str:
    """The pages that ask a question which matches a regular expression, with commas between them."""
    pages = [str(page) for page, text in texts().items() if re.search(rf"{{{{ {question}", text)]
    return ", ".join(pages) or "no page"


def markdown(frame: pd.DataFrame, labels: int = 1) -> str:
    """A table as it is shown; columns behind the first ``labels`` ones hold numbers, and are set right."""
    return formats.format_markdown(frame.columns, frame.to_numpy().tolist(), labels) + "\n"


def table(grid: str, name: str) -> str:
    """A whole table with its caption, folded but for its first paragraph; ``seeds``: each training seed, a row a model."""
    if name == SEEDS:
        return columns(grid, "; ".join(f"{SEEDS}: {column.head}" for column in OF_SEEDS))
    published = publication.read(grid)
    numbers = published.table(name)
    title, _, legend = published.caption(name).partition("\n\n")
    folded = f'??? note "How to read this table"\n\n{indent(legend, "    ")}'
    return formats.markdown(numbers, name, f"{title}\n\n{folded}" if legend else title)


def columns(grid: str, chosen: str, rows: str = "") -> str:
    """A row a model, with columns of several tables."""
    published = publication.read(grid)
    entries: dict[Model, dict[str, str]] = {}
    heads: list[str] = []
    for part in chosen.split(";"):
        name, _, wishes = part.strip().partition(": ")
        for wish in wishes.split("|"):
            head, _, title = (word.strip() for word in wish.partition("="))
            heads.append(title or head)
            for model, text in _texts(published, name, head).items():
                entries.setdefault(model, {})[heads[-1]] = text
    models = list(entries)
    if rows:
        patterns = [name.strip() for name in rows.split(",")]
        models = [m for name in patterns for m in find_models(name, models) or [one_model(name, models)]]
    # What is the same in all rows goes without saying, but for the method.
    labels = [i for i, key in enumerate(MODEL) if key == "method" or len({m[i] for m in models}) > 1]
    lines = []
    for model in models:
        label = [LABELS[MODEL[i]](model[i]) for i in labels]
        lines.append(label + [entries[model].get(head, words.NOTHING) for head in heads])
    titles = ["training" if MODEL[i] == "method" else MODEL[i] for i in labels]
    return formats.format_markdown(titles + heads, lines, len(labels)) + "\n"


def number(grid: str, name: str, row: str, column: str, digits: int, kind: Kind = words.interval) -> str:
    """A number of a table and its interval."""
    table = publication.read(grid).table(name)
    model = one_model(row, list(table[MODEL].itertuples(index=False, name=None)))
    (values,) = records(table[(table[MODEL] == list(model)).all(axis=1)])
    if column not in values:
        near = difflib.get_close_matches(column, values, 3, cutoff=0)
        raise UserError(f"{name}.csv of {grid} has no column {column}; near it: {', '.join(near)}.")
    return kind(column, digits)(values)


def origin(grid: str) -> str:
    """Where, when and in how many minutes a grid was made, each step counted by itself."""
    text = "Made on {machine}, {cores} cores, on {date}: {minutes} minutes of steps, {minutes_of_training} of them training.\n"
    return text.format_map(publication.read(grid).origin)


MACROS: dict[str, Callable[..., str]] = {
    "table": table,
    "origin": origin,
    "columns": columns,
    "number": number,
    "change": partial(number, kind=words.against_plain),
}


def find_models(name: str, models: Iterable[Model]) -> list[Model]:
    """The models that a part of dataset/backbone/loss/method names, all words of it in their order."""

    def fits(parts: Sequence[str]) -> bool:
        remaining = iter(map(str, parts))
        return all(word in remaining for word in name.split("/"))

    return [model for model in models if fits(model)]


def one_model(name: str, models: Sequence[Model]) -> Model:
    """The only model of that name. Raises UserError if there is none, or several, with those that it may mean."""
    matches = find_models(name, models)
    if len(matches) == 1:
        return matches[0]
    if not matches:
        every = ["/".join(map(str, model)) for model in models]
        near = difflib.get_close_matches(name, every, 3, cutoff=0) or every
        raise UserError(f"There is no row '{name}'; near it: {', '.join(near)}.")
    several = ", ".join("/".join(map(str, model)) for model in matches)
    raise UserError(f"'{name}' names {len(matches)} rows; write one of: {several}.")


def _texts(published: Publication, name: str, head: str) -> dict[Model, str]:
    """What a table prints in a column, by model; of ``seeds``, what each seed has, in their order. ``table9+x``: by model, what
    it prints in the row that has ``+x`` behind the model's method.
    """
    name, *rest = name.partition("+")
    suffix = "".join(rest)
    table = published.table(name)
    if suffix:
        table = table[table["method"].str.endswith(suffix)]
        table = table.assign(method=table["method"].str.removesuffix(suffix))
        if table.empty:
            raise UserError(f"{published.folder / name}.csv has no row '...{suffix}'.")
    available = OF_SEEDS if name == SEEDS else tables.load(name).COLUMNS
    matches = [column for column in available if column.head == head]
    if len(matches) != 1:
        several = f"has {len(matches)} columns" if matches else "has no column"
        raise UserError(f"{name} {several} '{head}'; it has: {' | '.join(c.head for c in available)}.")
    texts: dict[Model, list[str]] = {}
    for row in records(table):
        model: Model = tuple(row[key] for key in MODEL)  # type: ignore[assignment]
        try:
            texts.setdefault(model, []).append(formats.entry(matches[0], row))
        except KeyError as error:
            raise UserError(
                f"{published.folder / name}.csv has no column {error}: it is of older code."
            ) from error
    return {model: ", ".join(of_seeds) for model, of_seeds in texts.items()}
