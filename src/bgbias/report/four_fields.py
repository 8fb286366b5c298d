"""Does the dataset leak, does the model lean on it: the four fields of a page, and what each means.

What was not shown is not disproved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

# (backgrounds tell the class, the model loses without them)
Field = tuple[bool, bool]
COLUMNS = {True: "it loses when they change", False: "no loss shown beyond chance"}
ROWS = {True: "backgrounds tell the class", False: "not shown to, beyond chance"}
MEANINGS: dict[Field, str] = {
    (True, True): (
        "What lies outside of the masks tells the class, and the model loses when backgrounds change. Where objects will be seen"
        " elsewhere it needs a cure, once the masks are seen to be right."
    ),
    (True, False): "What lies outside of the masks tells the class. That the model needs it is not shown.",
    (False, True): (
        "The model loses when backgrounds change, though their colours and edges were not shown to tell the class."
    ),
    (False, False): "Neither is shown. That is no proof that neither is so: look at the intervals.",
}


def of(placed: Mapping[Field, Sequence[str]]) -> dict[str, Any]:
    """As the template takes them; ``placed``: the fields that are marked, each with the names of what stands there."""
    return {"rows": ROWS, "columns": COLUMNS, "meanings": MEANINGS, "placed": placed}
