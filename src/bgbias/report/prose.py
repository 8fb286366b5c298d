"""Sentences for people, from templates (``*.j2``) that lie beside the modules that fill them.

In a template a line may end anywhere: whatever white space stands between words is printed as one
space, and ``¶`` begins a paragraph. A value that is not given is an error of Jinja's. A module names
its template in full, so that digests count the template as part of the module's code.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bgbias.report import names
from bgbias.report.columns import format_number, with_interval
from bgbias.results.rows import read_estimate
from bgbias.results.uncertainty import Estimate

if TYPE_CHECKING:
    from jinja2 import Environment

PACKAGE = Path(__file__).parents[1]
FOLDERS = (PACKAGE / "report", PACKAGE / "report" / "tables", PACKAGE / "auditing", PACKAGE / "cli")


def paragraphs(template: str, values: Mapping[str, Any], shared: str = "") -> list[str]:
    """The paragraphs of a template; ``shared``: a template whose macros it may use, with the same values."""
    filled = _environment().get_template(template)
    macros = vars(_environment().get_template(shared).make_module(dict(values))) if shared else {}
    return _split_paragraphs(filled.render(macros | dict(values)))


def fill_macro(template: str, macro: str, **values: Any) -> list[str]:
    """The paragraphs of one macro of a template, without empty ones."""
    macros = _environment().get_template(template).module
    return list(filter(None, _split_paragraphs(getattr(macros, macro)(**values))))


def lines(template: str, **values: Any) -> str:
    """The lines of a template as they stand there: for a terminal, whose columns are made of spaces."""
    environment = _environment().overlay(trim_blocks=True, lstrip_blocks=True)
    filled = environment.get_template(template).render(values)
    return "\n".join(line.rstrip() for line in filled.splitlines()).strip("\n")


def _split_paragraphs(text: str) -> list[str]:
    return [" ".join(part.split()) for part in text.split("¶")]


def environment(folders: Path | Sequence[Path], **options: Any) -> Environment:
    """Jinja's environment of the templates in these folders, with its own ``options`` and the filters that all
    share.
    """
    import jinja2  # planning does without

    loader = jinja2.FileSystemLoader(folders)
    environment = jinja2.Environment(loader=loader, undefined=jinja2.StrictUndefined, **options)
    environment.globals |= {"count": names.count}
    environment.filters |= {
        "dataset": names.dataset,
        "loss": names.loss,
        "method": names.method,
        "listed": names.join_words,
        "estimate": read_estimate,
        "interval": lambda e, digits: with_interval(e.value, e.low, e.high, digits),
        "percent": _percent,
        "rounded": format_number,
    }
    environment.tests["bounded"] = lambda number: not math.isnan(number.low)
    environment.tests["known"] = lambda value: not math.isnan(value)
    return environment


@cache
def _environment() -> Environment:
    return environment(FOLDERS)


def _percent(share: Estimate, digits: int = 0, sign: str = " %") -> str:
    """A share of 0..1 in percent, its interval behind the sign."""
    value, *ends = (format_number(100 * number, digits) for number in (share.value, share.low, share.high))
    return f"{value}{sign}" + ("" if math.isnan(share.low) else f" [{', '.join(ends)}]")
