"""A table as a web page of its own, which needs no other file and no host."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bgbias.report.sections import Section

STYLE = """\
body { margin: 1.5rem; color: #20242a; background: #fff; font: 13px/1.5 system-ui, "DejaVu Sans", sans-serif }
p { max-width: 44rem; margin: 0 0 .8rem }
div { overflow-x: auto; margin-top: 1.5rem }
table { border-collapse: collapse; border-block: 2px solid #20242a; font-variant-numeric: tabular-nums }
th, td { padding: .3rem .5rem; text-align: right; white-space: nowrap; vertical-align: bottom }
th { font-weight: normal }
th:first-child { text-align: left; padding-left: 0 }
thead { color: #6b7280; font-size: 11px }
tbody { border-top: 1px solid #d5d9df }
tbody tr:first-child th { font-style: italic; padding-top: .8rem }
tbody tr:not(:first-child):hover { background: #f4f6f8 }
"""


def page(title: str, caption: str, heads: Sequence[str], sections: Sequence[Section]) -> str:
    """One table with a body for each section, the best of a loss in bold, below the caption's paragraphs."""
    row = "".join(f"<th>{_stacked(head)}</th>" for head in ["", *heads])
    paragraphs = "\n".join(f"<p>{_bold(_escape(text))}</p>" for text in caption.split("\n\n"))
    bodies = "\n".join(_body(section, len(heads) + 1) for section in sections)
    return (
        f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<title>{_escape(title)}</title>\n'
        f"<style>\n{STYLE}</style>\n{paragraphs}\n"
        f"<div><table>\n<thead><tr>{row}</tr></thead>\n{bodies}\n</table></div>\n</html>\n"
    )


def _body(section: Section, columns: int) -> str:
    lines = [f'<tr><th colspan="{columns}">{_escape(section.heading)}</th></tr>']
    for label, entries in section.rows:
        cells = (
            f"<td>{_bold('**' + _escape(text) + '**') if best else _escape(text)}</td>"
            for text, best in entries
        )
        lines.append(f"<tr><th>{_escape(label)}</th>{''.join(cells)}</tr>")
    return "<tbody>\n" + "\n".join(lines) + "\n</tbody>"


def _bold(text: str) -> str:
    return re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", text)


def _stacked(head: str) -> str:
    """A head in two lines where it has a unit or a qualifier: ``Drop, points``."""
    return "<br/>".join(_escape(part) for part in head.split(", ", 1))


def _escape(text: str) -> str:
    return html.escape(text, quote=False)
