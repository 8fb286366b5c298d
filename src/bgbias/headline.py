"""The few numbers of a table by which two versions of a study are compared: what ``dvc metrics diff`` shows."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import yaml

# Columns of Tables 1, 2 and 4, as people call them, and what Table 3 adds.
NUMBERS = {
    "clean": "MAP@R clean",
    "corrupted": "MAP@R corrupted",
    "relative_drop": "relative drop",
    "ref": "attribution score",
    "one_way_1": "IoU 1-way 1-shot",
    "two_way_1": "IoU 2-way 1-shot",
    "two_way_5": "IoU 2-way 5-shot",
}
OF_TABLE_3 = {
    "cure": "cure",
    "cost_seconds_a_step": "seconds a training step",
    "cost_memory_gb": "memory in training, GB",
}
MODEL = ("dataset", "backbone", "loss", "method")


def numbers(table: pd.DataFrame) -> dict[str, Any]:
    """dataset: backbone: loss: method: name: value, as far as the table has the columns and the values are known."""
    nested: dict[str, Any] = {}
    titles = OF_TABLE_3 if "cost_seconds_a_step" in table else NUMBERS
    for row in table.to_dict("records"):
        inner = nested
        for name in MODEL:
            inner = inner.setdefault(str(row[name]), {})
        known = {title: float(row[column]) for column, title in titles.items() if column in row}
        inner |= {title: value for title, value in known.items() if not math.isnan(value)}
    return nested


def text(table: pd.DataFrame) -> str:
    """The numbers as YAML, in the table's order."""
    return yaml.safe_dump(numbers(table), sort_keys=False, allow_unicode=True)
