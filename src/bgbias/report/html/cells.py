"""Cells of tables: where there is no room an interval stands below its number, with its star, and is not parted itself."""

from __future__ import annotations

import re

from bgbias.report.html import NO_BREAK


def whole_intervals(table: str) -> str:
    """A table's HTML in which a line may end before ``[low, high] *``, and not within."""
    return re.sub(r"\[[^\[\]<>]*\]( \*)?", lambda interval: interval[0].replace(" ", NO_BREAK), table)
