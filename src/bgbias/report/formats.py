"""The tables for readers: CSV in full precision; Markdown, LaTeX and HTML rounded, plain text for a terminal.

All rounded forms are made from one sheet of words, so that they cannot disagree.
"""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd

from bgbias.files import atomic
from bgbias.report import headline, names
from bgbias.report import html as webpage
from bgbias.report.sections import _sections
from bgbias.report.tables._columns import columns_of, legend

WIDTH = 110


def write(table: pd.DataFrame, folder: Path, name: str, caption: str) -> dict[str, Path]:
    """The table as ``name``.csv, .md, .tex and .html in ``folder``, its main numbers as .yaml; gives the paths by suffix."""
    texts = {
        "csv": table.to_csv(index=False),
        "md": markdown(table, name, caption),
        "tex": latex(table, name, caption),
        "html": html(table, name, caption),
        "yaml": headline.text(table, name),
    }
    written = {suffix: folder / f"{name}.{suffix}" for suffix in texts}
    for suffix, path in written.items():
        atomic.write_text(path, texts[suffix])
    return written


def markdown(table: pd.DataFrame, name: str, caption: str) -> str:
    """The caption, then one Markdown table for each dataset and backbone, the best of a loss in bold."""
    columns = columns_of(table, name)
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


def latex(table: pd.DataFrame, name: str, caption: str) -> str:
    r"""A ``table*`` to \input: booktabs rules, one block a dataset and backbone, a loss's best in bold."""
    columns = columns_of(table, name)
    span = len(columns) + 1
    lines = [
        r"% needs \usepackage{booktabs} and \usepackage{graphicx}",
        r"\begin{table*}[t]",
        r"\centering",
        rf"\caption{{{escape(_plain(caption))}}}",
        rf"\label{{tab:{name}}}",
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


def html(table: pd.DataFrame, name: str, caption: str) -> str:
    """The same as a web page that needs no other file."""
    columns = columns_of(table, name)
    return webpage.page(names.table(name), caption, [c.head for c in columns], _sections(table, columns))


def show(table: pd.DataFrame, name: str) -> str:
    """The table as plain text of at most 110 columns: what fits of it, the rest is in its files."""
    columns = [c for c in columns_of(table, name) if c.terminal]
    sections = _sections(table, columns)
    labels = max(len(label) for s in sections for label, _ in s.rows)
    widths = [
        max([len(c.terminal), *(len(entries[i][0]) for s in sections for _, entries in s.rows)])
        for i, c in enumerate(columns)
    ]
    while labels + sum(widths) + 2 * len(widths) > WIDTH:
        widths.pop()
    columns = columns[: len(widths)]
    head = " " * labels + "".join(f"  {c.terminal:>{w}}" for c, w in zip(columns, widths, strict=True))
    lines = [head]
    for section in sections:
        title = f"── {section.heading} "
        lines.append(title + "─" * max(0, len(head) - len(title)))
        for label, entries in section.rows:
            texts = "".join(f"  {text:>{w}}" for (text, _), w in zip(entries, widths, strict=False))
            lines.append(f"{label:<{labels}}{texts}")
    return "\n".join(line.rstrip() for line in [*lines, "", *legend(name)])


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
