"""The tables for readers: CSV in full precision; Markdown, LaTeX and HTML rounded, plain text for a terminal.

All rounded forms are made from one sheet of words, so that they cannot disagree.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from bgbias import atomic, headline, webpage, wording
from bgbias.episodes import TASKS

WIDTH = 110
NOTHING = "–"
TASK_HEADS = dict(
    zip(TASKS, (("1-way 1-shot", "1-1"), ("2-way 1-shot", "2-1"), ("2-way 5-shot", "2-5")), strict=True)
)
Row = dict[str, Any]


@dataclass(frozen=True)
class Column:
    """A printed column: its head, a row's text, its shorter head on a terminal (none: no room there).

    ``best`` names the table's column whose highest number among a loss's methods is set in bold, as in the
    paper.
    """

    head: str
    text: Callable[[Row], str]
    terminal: str = ""
    best: str = ""


@dataclass(frozen=True)
class Section:
    """The rows of one dataset and backbone: a heading, then a label and (text, is best) for each column."""

    heading: str
    rows: list[tuple[str, list[tuple[str, bool]]]]


def write(table: pd.DataFrame, folder: Path, name: str, caption: str) -> dict[str, Path]:
    """The table as ``name``.csv, .md, .tex and .html in ``folder``, its main numbers as .yaml; gives the paths by suffix."""
    texts = {
        "csv": table.to_csv(index=False),
        "md": markdown(table, caption),
        "tex": latex(table, caption, label=f"tab:{name}"),
        "html": html(table, caption, title=wording.table(name)),
        "yaml": headline.text(table),
    }
    written = {suffix: folder / f"{name}.{suffix}" for suffix in texts}
    for suffix, path in written.items():
        atomic.write_text(path, texts[suffix])
    return written


def markdown(table: pd.DataFrame, caption: str) -> str:
    """The caption, then one Markdown table for each dataset and backbone, the best of a loss in bold."""
    columns = _columns(table)
    parts = [caption]
    for section in _sections(table, columns):
        head = ["", *(c.head for c in columns)]
        lines = [head, ["---", *("---:" for _ in columns)]]
        for label, entries in section.rows:
            lines.append([label, *(f"**{text}**" if best else text for text, best in entries)])
        body = "\n".join(
            "| " + " | ".join(word.replace("|", r"\|") for word in line) + " |" for line in lines
        )
        parts.append(f"### {section.heading}\n\n{body}")
    return "\n\n".join(parts) + "\n"


def latex(table: pd.DataFrame, caption: str, label: str) -> str:
    r"""A ``table*`` to \input: booktabs rules, one block a dataset and backbone, a loss's best in bold."""
    columns = _columns(table)
    span = len(columns) + 1
    lines = [
        r"% needs \usepackage{booktabs} and \usepackage{graphicx}",
        r"\begin{table*}[t]",
        r"\centering",
        rf"\caption{{{escape(_plain(caption))}}}",
        rf"\label{{{label}}}",
        r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
        rf"\begin{{tabular}}{{l{'r' * len(columns)}}}",
        r"\toprule",
        " & ".join(["", *(_stacked(c.head) for c in columns)]) + r" \\",
    ]
    for section in _sections(table, columns):
        lines += [
            r"\midrule",
            rf"\multicolumn{{{span}}}{{l}}{{\textit{{{escape(section.heading)}}}}} \\",
            r"\addlinespace[2pt]",
        ]
        for row_label, entries in section.rows:
            words = [rf"\textbf{{{escape(text)}}}" if best else escape(text) for text, best in entries]
            # {} keeps a label that starts with [ or * from being read as an option of the line before.
            lines.append(" & ".join(["{}" + escape(row_label), *words]) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}}", r"\end{table*}"]) + "\n"


def html(table: pd.DataFrame, caption: str, title: str) -> str:
    """The same as a web page that needs no other file."""
    columns = _columns(table)
    return webpage.page(title, caption, [c.head for c in columns], _sections(table, columns))


def show(table: pd.DataFrame) -> str:
    """The table as plain text of at most 110 columns: what fits of it, the rest is in its files."""
    columns = [c for c in _columns(table) if c.terminal]
    sections = _sections(table, columns)
    labels = max(len(label) for s in sections for label, _ in s.rows)
    widths = [
        max([len(c.terminal), *(len(entries[i][0]) for s in sections for _, entries in s.rows)])
        for i, c in enumerate(columns)
    ]
    head = " " * labels + "".join(f"  {c.terminal:>{w}}" for c, w in zip(columns, widths, strict=True))
    lines = [head]
    for section in sections:
        title = f"── {section.heading} "
        lines.append(title + "─" * max(0, len(head) - len(title)))
        for label, entries in section.rows:
            texts = "".join(f"  {text:>{w}}" for (text, _), w in zip(entries, widths, strict=True))
            lines.append(f"{label:<{labels}}{texts}")
    legend = next(words for column, words in _LEGENDS.items() if column in table)
    return "\n".join(line.rstrip() for line in [*lines, "", *legend])


# By a column that tells the tables apart.
_LEGENDS = {
    "drop": (
        "MAP@R in %. Corr.: random backgrounds in query and gallery; query only: in the query alone.",
        "Drop: relative. Cure: plain's drop minus this one. [95 %]: paired bootstrap over queries.",
    ),
    "ref": (
        "Attribution on the object, corrected for its size: 1 all of it, 0 no more than chance. Score: the",
        "paper's; robust: ours. < 0: share of photos. Gain: over plain, with paired bootstrap over photos.",
    ),
    TASKS[0]: (
        "Mean IoU in % of GrabCut from similarity attention; 1-1, 2-1, 2-5: ways and shots. Over centre: over",
        "the centre prior's. [95 %]: paired bootstrap over episodes.",
    ),
}
LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{c: rf"\{c}" for c in "&%$#_{}"},
    "–": "--",
    "−": "$-$",
    "±": r"$\pm$",
    "<": "$<$",
    ">": "$>$",
    "Δ": r"$\Delta$",
    "·": r"$\cdot$",
    "…": r"\dots{}",
    "²": r"$^2$",
}


def escape(text: str) -> str:
    """Text as LaTeX prints it, with every special character and the signs of our tables spelt out."""
    return re.sub("|".join(map(re.escape, LATEX)), lambda found: LATEX[found.group()], text)


def _plain(caption: str) -> str:
    r"""A caption in one paragraph, as \caption wants it, without Markdown's bold."""
    return caption.replace("**", "").replace("\n\n", " ")


def _stacked(head: str) -> str:
    """A head in two lines where it has a unit or a qualifier: ``Drop, points``."""
    first, _, rest = head.partition(", ")
    words = [escape(first), escape(rest)] if rest else [escape(first)]
    return r"\shortstack[r]{" + r"\\".join(words) + "}"


def _columns(table: pd.DataFrame) -> list[Column]:
    if TASKS[0] in table:
        return _segmentation_columns()
    return _retrieval_columns(table) if "relative_drop" in table else _attribution_columns(table)


def _retrieval_columns(table: pd.DataFrame) -> list[Column]:
    columns = [
        Column("Clean", _number("clean", 2), "Clean", best="clean"),
        Column("± seeds", _number("clean_sd_seeds", 2)),
        Column("Corrupted", _number("corrupted", 2), "Corr.", best="corrupted"),
        Column("± draws", _number("corrupted_sd_draws", 2), "± draws"),
        Column("± seeds", _number("corrupted_sd_seeds", 2), "± seeds"),
        Column("Drop, points", _interval("drop", 1)),
        Column("Drop, %", _interval("relative_drop", 1), "Drop, % [95 %]"),
        Column("Cure, points", _interval("cure", 1), "Cure, points [95 %]"),
        Column("Query only", _number("query_only", 2)),
        Column("Query-only drop, %", _number("query_only_relative_drop", 1), "Query only, %"),
        Column("P@1, clean", _number("p_at_1_clean", 1)),
        Column("P@1, corrupted", _number("p_at_1_corrupted", 1)),
    ]
    if table["published_clean"].notna().any():
        columns += [
            Column("Paper, clean", _number("published_clean", 2)),
            Column("Δ, clean", _number("difference_clean", 2, sign=True)),
            Column("Paper, corrupted", _with_sd("published_corrupted", 2)),
            Column("Δ, corrupted", _number("difference_corrupted", 2, sign=True)),
        ]
    return columns


def _attribution_columns(table: pd.DataFrame) -> list[Column]:
    columns = []
    variants = {"ref": "Score", "robust": "Robust", "similarity": "Similarity"}
    for variant, name in ((v, n) for v, n in variants.items() if v in table):
        columns += [
            Column(name, _number(variant, 3), name, best=variant),
            Column("± images", _number(f"{variant}_sd_images", 3), "± img"),
            Column("± seeds", _number(f"{variant}_sd_seeds", 3)),
            Column("< 0, %", _number(f"{variant}_negative", 1), "< 0, %"),
            Column("Gain", _interval(f"{variant}_gain", 3), "Gain [95 %]"),
        ]
    columns += [
        Column("Images", lambda row: f"{row['images']:,}"),
        Column("Skipped", _skipped),
    ]
    if table["published_ref"].notna().any():
        columns += [
            Column("Paper", _with_sd("published_ref", 2)),
            Column("Δ", _number("difference_ref", 3, sign=True)),
        ]
    return columns


def _segmentation_columns() -> list[Column]:
    columns = []
    for task, (name, short) in TASK_HEADS.items():
        columns += [
            Column(name, _interval(task, 1), short, best=task),
            Column("± seeds", _number(f"{task}_sd_seeds", 1)),
            Column("Map alone", _number(f"{task}_map", 1)),
            Column("Over plain", _interval(f"{task}_gain", 1)),
            Column("Over centre", _interval(f"{task}_over_centre", 1), "Over centre" * (task == TASKS[-1])),
        ]
    return columns


def _sections(table: pd.DataFrame, columns: Sequence[Column]) -> list[Section]:
    made = []
    for (dataset, backbone), part in table.groupby(["dataset", "backbone"], sort=False):
        values = part.itertuples(index=False)
        rows: list[Row] = [dict(zip(table.columns, row, strict=True)) for row in values]
        plain = {row["loss"] for row in rows if row["method"] == wording.PLAIN}
        lines = []
        for row in rows:
            rivals = [r for r in rows if r["loss"] == row["loss"]]
            label = wording.row(row["loss"], row["method"], below_plain=row["loss"] in plain)
            lines.append((label, [(c.text(row), _is_best(c, row, rivals)) for c in columns]))
        repeated = (
            ("seed", "seeds"),
            ("draw", "draws"),
            ("query", "queries"),
            ("image", "images"),
            ("episode", "episodes"),
        )
        counts = [wording.how_many(part, column, noun) for noun, column in repeated if column in part]
        heading = " · ".join([wording.dataset(str(dataset)), str(backbone), *counts])
        made.append(Section(heading, lines))
    return made


def _is_best(column: Column, row: Row, rivals: list[Row]) -> bool:
    return bool(column.best) and len(rivals) > 1 and row[column.best] == max(r[column.best] for r in rivals)


def _number(column: str, digits: int, sign: bool = False) -> Callable[[Row], str]:
    return lambda row: _rounded(row[column], digits, sign)


def _with_sd(column: str, digits: int) -> Callable[[Row], str]:
    def text(row: Row) -> str:
        spread = row[f"{column}_sd"]
        return _rounded(row[column], digits) + ("" if math.isnan(spread) else f" ± {spread:.{digits}f}")

    return text


def _interval(column: str, digits: int) -> Callable[[Row], str]:
    def text(row: Row) -> str:
        if math.isnan(row[column]):
            return NOTHING
        low, high = (_rounded(row[f"{column}_{end}"], digits) for end in ("low", "high"))
        return f"{_rounded(row[column], digits)} [{low}, {high}]"

    return text


def _skipped(row: Row) -> str:
    # A table read back from its CSV has NaN where nothing was skipped.
    return row["skipped"] if isinstance(row["skipped"], str) and row["skipped"] else "none"


def _rounded(value: float, digits: int, sign: bool = False) -> str:
    """A number with a true minus sign; a dash where there is none."""
    if math.isnan(value):
        return NOTHING
    # Adding 0 turns a rounded -0.00 into 0.00.
    return f"{round(value, digits) + 0.0:{'+' if sign else ''}.{digits}f}".replace("-", "−")
