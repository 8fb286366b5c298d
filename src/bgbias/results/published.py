"""Published numbers beside our own: rows of data/published/*.csv, each with the table it was copied from.

A number stands beside ours only where the paper's data and backbone were used. ``folds`` says of how many folds it is the mean,
or how many folds' models stand side by side in it (1 where a file has no such column), ``differs`` what else was done in another
way there. A number that was found as ours is goes before one that was not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from bgbias.errors import UserError
from bgbias.files.places import PUBLISHED, project_root
from bgbias.photos.folds import FOLDS

CELL = ("dataset", "backbone", "loss", "method", "metric", "condition")
COLUMNS = ("source", *CELL, "value", "sd", "unit", "differs")


@dataclass(frozen=True)
class Published:
    """One printed number, in the unit it was printed in (percent or score), its +- (NaN where none), its source, and what was
    done in another way than here (empty: nothing).
    """

    value: float
    sd: float
    source: str
    differs: str


NOTHING = Published(math.nan, math.nan, "", "")
OF_FOLDS = {
    1: "one model, trained on one split of the training classes",
    FOLDS: "mean of four models, each trained on three quarters of the training classes",
}


def read(folder: Path | None = None) -> pd.DataFrame:
    """All published rows, one a number. Raises UserError if there is no file, or one lacks a column."""
    found = sorted((folder or project_root() / PUBLISHED).glob("*.csv"))
    if not found:
        raise UserError(
            f"The published numbers are missing: {folder or PUBLISHED}. Restore them: git checkout -- {PUBLISHED}"
        )
    parts = []
    for path in found:
        part = pd.read_csv(path).astype({"differs": object}, errors="ignore")
        part["folds"] = part.get("folds", 1)
        missing = [c for c in COLUMNS if c not in part]
        if missing:
            raise UserError(
                f"{path} lacks the column(s) {', '.join(missing)}. Restore it: git checkout -- {PUBLISHED}"
            )
        parts.append(part)
    return pd.concat(parts, ignore_index=True).fillna({"differs": ""})


def number(
    rows: pd.DataFrame,
    dataset: str,
    backbone: str,
    loss: str,
    method: str,
    metric: str,
    condition: str,
    folds: int = 1,
) -> Published:
    """A paper's number for this cell, or ``NOTHING`` where no paper has one; ``folds`` is how many stand behind ours."""
    wanted = dict(zip(CELL, (dataset, backbone, loss, method, metric, condition), strict=True))
    found = rows[(rows[list(wanted)] == pd.Series(wanted)).all(axis=1)]
    # Found as ours is; else with nearly as many folds.
    far = (found["folds"] - folds).abs() + FOLDS * (found["differs"] != "")
    found = found[far == far.min()]
    if len(found) > 1:
        raise UserError(f"{PUBLISHED} holds {len(found)} rows for {' '.join(wanted.values())}; keep one.")
    if found.empty:
        return NOTHING
    row = found.iloc[0]
    differs = "; ".join(
        filter(None, [OF_FOLDS[row["folds"]] if row["folds"] != folds else "", row["differs"]])
    )
    return Published(float(row["value"]), float(row["sd"]), str(row["source"]), differs)
