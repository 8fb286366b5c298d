"""Wide tables: an interval stands below its number where there is no room, and pages of results have the room of the contents."""

from __future__ import annotations

import re
from typing import Any

from bgbias.report.html.cells import whole_intervals

ENTRY = re.compile(r'<td style="text-align: right;">.*?</td>')


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """A page of results is as wide as it can be."""
    if page.file.src_uri.startswith("results/"):
        page.meta["hide"] = ["toc"]
    return markdown


def on_page_content(content: str, **_: Any) -> str:
    """A page's HTML whose numbers' cells break only before an interval."""
    return ENTRY.sub(lambda entry: whole_intervals(entry[0]), content)
