"""Wide tables: numbers' cells break before an interval or behind a comma, and pages of results have the room of the contents."""

from __future__ import annotations

import re
from typing import Any

from bgbias.report.html import NO_BREAK, whole_intervals

BLANK = re.compile(r"(<[^>]*>)|(?<!,) ")  # outside of tags
ENTRY = re.compile(r'(<td style="text-align: right;">)(.*?)(</td>)')


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """A page of results is as wide as it can be."""
    if page.file.src_uri.startswith("results/"):
        page.meta["hide"] = [*page.meta.get("hide", []), "toc"]
    return markdown


def on_page_content(content: str, **_: Any) -> str:
    """A page's HTML with its cells of numbers kept together."""
    return ENTRY.sub(lambda entry: entry[1] + kept_together(entry[2]) + entry[3], content)


def kept_together(entry: str) -> str:
    """What stands in a cell of numbers: a line may end before an interval; in a cell without one, behind a comma."""
    return whole_intervals(entry) if "[" in entry else BLANK.sub(lambda found: found[1] or NO_BREAK, entry)
