"""The tables for readers: CSV in full precision; Markdown, LaTeX, HTML and a terminal's text rounded; the main numbers as YAML.

All rounded forms are made from one sheet of words, so that they cannot disagree.
"""

import math
import re
import shutil
import textwrap
from collections.abc import Iterable, Sequence
from functools import cache, partial
from html import escape as html_escape
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from bgbias.errors import UserError
from bgbias.files import atomic
from bgbias.report import names, prose, tables
from bgbias.report.columns import Column, Row, select_printed
from bgbias.results.rows import MODEL, read_csv, records
from bgbias.study.cell import PLAIN

WIDEST = 110  # columns of text on a terminal
IN_MARKDOWN = "**{}**"
INTERVAL = re.compile(r"^(.+?) (\[[^\]]+\].*)$")  # a number, and its interval with what stands behind it
_Section = tuple[str, list[tuple[str, list[tuple[str, bool]]]]]
REPEATED = {
    "seeds": "seed",
    "folds": "fold",
    "draws": "draw",
    "queries": "query",
    "images": "image",
    "episodes": "episode",
}


def write(table: pd.DataFrame, folder: Path, name: str, caption: str) -> dict[str, Path]:
    """The table as ``name``.csv, .md, .tex and .html in ``folder``, its main numbers as .yaml; gives the paths by suffix."""
    texts = {
        "csv": table.to_csv(index=False),
        "md": markdown(table, name, caption),
        "tex": latex(table, name, caption),
        "html": html(table, name, caption),
        "yaml": yaml.safe_dump(headline(table, name), sort_keys=False, allow_unicode=True),
    }
    written = {suffix: folder / f"{name}.{suffix}" for suffix in texts}
    for suffix, path in written.items():
        atomic.write_text(path, texts[suffix])
    return written


def read(path: Path) -> pd.DataFrame:
    """A table as its CSV holds it. Raises UserError if it was not made yet."""
    if not path.exists():
        raise UserError(
            f"{path} is missing; make it with: snakemake --cores all --config grid={path.parent.name}"
        )
    return read_csv(path)


def headline(table: pd.DataFrame, name: str) -> dict[str, Any]:
    """dataset: backbone: loss: method: number: value, as far as values are known: what ``dvc metrics diff`` compares."""
    nested: dict[str, Any] = {}
    for row in table.to_dict("records"):
        inner = nested
        for part in MODEL:
            inner = inner.setdefault(str(row[part]), {})
        values = {title: float(row[column]) for column, title in tables.load(name).HEADLINE.items()}
        inner |= {title: value for title, value in values.items() if not math.isnan(value)}
    return nested


def markdown(table: pd.DataFrame, name: str, caption: str) -> str:
    """The caption, then one Markdown table for each dataset and backbone, what is better than plain in bold."""
    columns = select_printed(table, tables.load(name).COLUMNS)
    parts = [caption.replace("__", r"\_\_")]  # file names such as __init__.py are not in bold
    for heading, rows in _sections(table, columns):
        lines = [
            [label, *(_mark(text, bold, IN_MARKDOWN) for text, bold in entries)] for label, entries in rows
        ]
        parts.append(f"### {heading}\n\n{format_markdown(['', *(c.head for c in columns)], lines)}")
    return "\n\n".join(parts) + "\n"


def format_markdown(heads: Iterable[object], lines: Iterable[Iterable[object]], labels: int = 1) -> str:
    """A Markdown table; columns behind the first ``labels`` ones hold numbers, and are set right."""
    head = list(heads)
    every: list[Iterable[object]] = [head, ["---"] * labels + ["---:"] * (len(head) - labels), *lines]
    escaped = ([str(word).replace("|", r"\|") for word in line] for line in every)
    return "\n".join(f"| {' | '.join(line)} |" for line in escaped)


def entry(column: Column, row: Row) -> str:
    """What a column says of a row in Markdown, in bold if it is better than plain."""
    return _mark(column.text(row), column.is_bold(row), IN_MARKDOWN)


def latex(table: pd.DataFrame, name: str, caption: str) -> str:
    r"""A ``table*`` to \input, as small as a page asks for: booktabs rules, one block a dataset and backbone, what is better
    than plain in bold, intervals below their numbers. The caption's first sentence is LaTeX's caption; what a reader must know
    beside it stands below the table.
    """
    # \caption wants one paragraph, and so does \parbox.
    short, dot, notes = caption.replace("**", "").replace("\n\n", " ").partition(". ")
    sheet = _sheet(table, tables.load(name).COLUMNS)
    return str(_macros().tex(name=name, short=short + dot.strip(), notes=notes, **sheet))


def html(table: pd.DataFrame, name: str, caption: str) -> str:
    """The same as a web page that needs no other file: a body for each section, below the caption's paragraphs."""
    bold = [re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", _web(text)) for text in caption.split("\n\n")]
    rows = html_rows(table, tables.load(name).COLUMNS)
    return str(_macros().page(title=names.table(name), paragraphs=bold, rows=rows))


def html_rows(table: pd.DataFrame, chosen: Sequence[Column]) -> str:
    """The same of a table, a row a model, without a page around it."""
    return str(_macros().rows(**_sheet(table, chosen)))


def _sheet(table: pd.DataFrame, chosen: Sequence[Column]) -> dict[str, Any]:
    columns = select_printed(table, chosen)
    return {"columns": columns, "sections": _sections(table, columns)}


def show(table: pd.DataFrame, name: str) -> str:
    """The table as plain text of at most 110 columns, fewer on a narrow terminal: what fits of it, the rest is in its files."""
    declared = tables.load(name)
    legend = getattr(declared, "LEGEND", ())
    folder, _, file = declared.__name__.rpartition(".")
    if folder == tables.__name__:
        legend = textwrap.wrap(" ".join(prose.fill_macro("legends.j2", file)), _width())
    return plain(table, declared.COLUMNS, legend)


def plain(table: pd.DataFrame, chosen: Sequence[Column], legend: Sequence[str]) -> str:
    """The same of a table, a row a model, that is no file of the report's."""
    columns = [c for c in select_printed(table, chosen) if c.terminal]
    sections = _sections(table, columns)
    every = [row for _, rows in sections for row in rows]
    labels = max(len(label) for label, _ in every)
    widths = [max(len(c.terminal), *(len(e[i][0]) for _, e in every)) for i, c in enumerate(columns)]
    while len(widths) > 1 and labels + sum(widths) + 2 * len(widths) > _width():
        widths.pop()
    if further := [column.terminal for column in columns[len(widths) :]]:
        legend = [*legend, *textwrap.wrap(f"Not shown for want of room: {', '.join(further)}.", _width())]
    head = " " * labels + "".join(f"  {c.terminal:>{w}}" for c, w in zip(columns, widths, strict=False))
    lines = [head]
    for heading, rows in sections:
        lines.append(f"── {heading} ".ljust(len(head), "─"))
        for label, entries in rows:
            texts = "".join(f"  {text:>{w}}" for (text, _), w in zip(entries, widths, strict=False))
            lines.append(f"{label:<{labels}}{texts}")
    return "\n".join(line.rstrip() for line in [*lines, "", *legend])


def _width() -> int:
    return min(shutil.get_terminal_size((WIDEST, 24)).columns, WIDEST)


def _sections(table: pd.DataFrame, columns: Sequence[Column]) -> list[_Section]:
    """The rows of each dataset and backbone: a heading, then a label and (text, whether in bold) for each
    column. Where rows differ in their backbone alone, those of a dataset stand together.
    """
    sections = []
    by_backbone = len(table) > 1 and len(table[["loss", "method"]].drop_duplicates()) == 1
    for _, part in table.groupby(["dataset"] if by_backbone else ["dataset", "backbone"], sort=False):
        rows = records(part)
        plain = {row["loss"] for row in rows if row["method"] == PLAIN}
        lines = []
        for row in rows:
            below_plain = row["loss"] in plain
            trained = names.row(row["loss"], row["method"], below_plain=below_plain)
            label = str(row["backbone"]) if by_backbone else trained
            lines.append((label, [(c.text(row), c.is_bold(row)) for c in columns]))
        counts = [names.how_many(part, column, noun) for column, noun in REPEATED.items() if column in part]
        title = [names.dataset(str(rows[0]["dataset"])), *([] if by_backbone else [str(rows[0]["backbone"])])]
        sections.append((" · ".join([*title, *counts]), lines))
    return sections


def _mark(text: str, bold: bool, form: str) -> str:
    """A text, its number in bold if that is wanted; what stands behind the number is not."""
    number, space, rest = text.partition(" ")
    return form.format(number) + space + rest if bold else text


LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{c: rf"\{c}" for c in "&%$#_{}"},
    "–": "--",
    "−": "$-$",
    "±": r"$\pm$",
    "×": r"$\times$",
    "†": r"\dag{}",
    "<": "$<$",
    ">": "$>$",
    "≥": r"$\geq$",
    "Δ": r"$\Delta$",
    "·": r"$\cdot$",
    "…": r"\dots{}",
    "²": r"$^2$",
}


def escape(text: str) -> str:
    """Text as LaTeX prints it, with every special character and the signs of our tables spelt out."""
    return re.sub("|".join(map(re.escape, LATEX)), lambda sign: LATEX[sign.group()], text)


_web = partial(html_escape, quote=False)


def _narrow(head: str) -> list[str]:
    """A head in lines about as wide as the numbers below it."""
    return [line for part in head.split(", ", 1) for line in textwrap.wrap(part, 11, break_long_words=False)]


@cache
def _macros() -> Any:
    folder = Path(__file__).parent
    environment = prose.environment(folder, trim_blocks=True, keep_trailing_newline=True)
    # LaTeX has braces of its own.
    environment.block_start_string, environment.block_end_string = "<%", "%>"
    environment.variable_start_string, environment.variable_end_string = "<<", ">>"
    environment.comment_start_string, environment.comment_end_string = "<#", "#>"
    environment.filters |= {
        "narrow": _narrow,
        "tex": escape,
        "below": partial(INTERVAL.sub, r"\\below{\1}{\2}"),
        "mark": _mark,
        "web": _web,
    }
    return environment.get_template("formats.j2").module
