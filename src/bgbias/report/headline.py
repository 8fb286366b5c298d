"""The few numbers of a table by which two versions of a study are compared: what ``dvc metrics diff`` shows."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import yaml

from bgbias.results.model_rows import MODEL

# Each table's columns, as people call them; of Table 3, what it adds to the others.
NUMBERS = {
    "table1": {
        "clean": "MAP@R clean",
        "corrupted": "MAP@R corrupted",
        "relative_drop": "relative drop",
    },
    "table2": {"ref": "attribution score"},
    "table3": {
        "cure": "cure",
        "cost_seconds_a_step": "seconds a training step",
        "cost_memory_gb": "memory in training, GB",
    },
    "table4": {
        "one_way_1": "IoU 1-way 1-shot",
        "two_way_1": "IoU 2-way 1-shot",
        "two_way_5": "IoU 2-way 5-shot",
    },
}


def numbers(table: pd.DataFrame, name: str) -> dict[str, Any]:
    """dataset: backbone: loss: method: number: value of the table called ``name``, as far as values are known."""
    nested: dict[str, Any] = {}
    for row in table.to_dict("records"):
        inner = nested
        for part in MODEL:
            inner = inner.setdefault(str(row[part]), {})
        known = {title: float(row[column]) for column, title in NUMBERS[name].items()}
        inner |= {title: value for title, value in known.items() if not math.isnan(value)}
    return nested


def text(table: pd.DataFrame, name: str) -> str:
    """The numbers as YAML, in the table's order."""
    return yaml.safe_dump(numbers(table, name), sort_keys=False, allow_unicode=True)
