"""Tables of results: a line such as ``{{ table("demo", "table1") }}`` becomes what published files have (report/pages.py).

``{{ evidence("uncertainty", "coverage") }}`` is a table that a script of docs/ makes of the CSV files beside it.
"""

from __future__ import annotations

import runpy
from functools import cache
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError

from bgbias.errors import UserError
from bgbias.report import pages

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = {
    "masker": "results/masker_from_report.py",
    "mask_clarity": "results/mask_clarity.py",
    "maskers": "results/maskers.py",
    "mask_range": "results/mask_range.py",
    "public_models": "results/public_models.py",
    "validity": "results/validity.py",
    "backgrounds": "results/backgrounds_from_proposal.py",
    "settings": "settings/__main__.py",
    "sensitivity": "sensitivity/__main__.py",
    "uncertainty": "uncertainty/__main__.py",
}


@cache
def tables_of(kind: str) -> dict[str, str]:
    """The tables of a script as Markdown, by their names."""
    tables: dict[str, str] = runpy.run_path(str(ROOT / "docs" / SCRIPTS[kind]), run_name=kind)["tables"]()
    return tables


def evidence(kind: str, name: str) -> str:
    """A table of a script."""
    return tables_of(kind)[name]


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """A page's text with the tables that it asks for; one that is not there stops the build and is named."""
    macros = pages.MACROS | {"evidence": evidence}
    try:
        return pages.LINE.sub(lambda line: pages.answer(line[1], macros), markdown)
    except UserError as error:
        raise PluginError(f"{page.file.src_uri}: {error}") from error
