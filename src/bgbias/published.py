"""Published numbers beside our own: rows of data/published/*.csv, each with the table it was copied from.

A number is a fair comparison only where the paper's data and backbone were used; everywhere else there is
none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from bgbias.errors import UserError
from bgbias.paths import PUBLISHED, project_root

# Kobs & Hotho 2022, section 4: the full official test splits, embedded by a BN-Inception.
DATASETS = ("cars196", "cub200", "sop")
BACKBONE = "bn_inception"
COLUMNS = ("source", "dataset", "loss", "method", "metric", "condition", "value", "sd", "unit")


@dataclass(frozen=True)
class Published:
    """One printed number, in the unit it was printed in (percent or score), its +- (NaN where none) and its
    source.
    """

    value: float
    sd: float
    source: str


NOTHING = Published(math.nan, math.nan, "")


def read(path: Path | None = None) -> pd.DataFrame:
    """All published rows, one a number. Raises UserError if the file or one of its columns is missing."""
    path = path or project_root() / PUBLISHED
    if not path.exists():
        raise UserError(
            f"The published numbers are missing: {path}. Restore them: git checkout -- {PUBLISHED}"
        )
    rows = pd.read_csv(path)
    missing = [c for c in COLUMNS if c not in rows]
    if missing:
        raise UserError(
            f"{path} lacks the column(s) {', '.join(missing)}. Restore it: git checkout -- {PUBLISHED}"
        )
    return rows


def number(
    rows: pd.DataFrame, dataset: str, backbone: str, loss: str, method: str, metric: str, condition: str
) -> Published:
    """The paper's number for this cell, or ``NOTHING`` where the paper has none that compares."""
    if backbone != BACKBONE or dataset not in DATASETS:
        return NOTHING
    wanted = {"dataset": dataset, "loss": loss, "method": method, "metric": metric, "condition": condition}
    found = rows[(rows[list(wanted)] == pd.Series(wanted)).all(axis=1)]
    if len(found) > 1:
        raise UserError(f"{PUBLISHED} holds {len(found)} rows for {' '.join(wanted.values())}; keep one.")
    if found.empty:
        return NOTHING
    row = found.iloc[0]
    return Published(float(row["value"]), float(row["sd"]), str(row["source"]))
