"""Published numbers beside our own: rows of data/published/*.csv, each with the table it was copied from.

A number stands beside ours only where the paper's data and backbone were used. ``folds`` says of how many folds it is the mean,
or how many folds' models stand side by side in it (1 where a file has no such column), ``differs`` what else was done in another
way there. A number that was found as ours is goes before one that was not.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from bgbias.errors import UserError
from bgbias.files.checksums import sha256
from bgbias.files.places import PUBLISHED, project_root
from bgbias.photos.folds import FOLDS
from bgbias.results.rows import Model

KEYS = ("dataset", "backbone", "loss", "method", "metric", "condition")
COLUMNS = ("source", *KEYS, "value", "sd", "unit", "differs")


@dataclass(frozen=True)
class PublishedNumber:
    """One printed number, in the unit it was printed in (percent or score), its +- (NaN where none), its source, and what was
    done in another way than here (empty: nothing).
    """

    value: float
    sd: float
    source: str
    differs: str


NOTHING = PublishedNumber(math.nan, math.nan, "", "")
OF_FOLDS = {
    1: "one model, trained on one split of the training classes",
    FOLDS: "mean of four models, each trained on three quarters of the training classes",
}


def files(folder: Path | None = None) -> list[Path]:
    """The files of published numbers, by name."""
    return sorted((folder or project_root() / PUBLISHED).glob("*.csv"))


def settings(_study: object) -> dict[str, Any]:
    """Settings of a table beside published numbers, which is another one when the files are others: what they hold, by name."""
    return {"published": {path.name: sha256(path) for path in files()}}


def read(folder: Path | None = None) -> pd.DataFrame:
    """All published rows, one a number. Raises UserError if there is no file, or one lacks a column."""
    paths = files(folder)
    if not paths:
        raise UserError(
            f"The published numbers are missing: {folder or PUBLISHED}. Restore them: git checkout -- {PUBLISHED}"
        )
    parts = []
    for path in paths:
        part = pd.read_csv(path).astype({"differs": object}, errors="ignore")
        part["folds"] = part.get("folds", 1)
        missing = [c for c in COLUMNS if c not in part]
        if missing:
            raise UserError(
                f"{path} lacks the column(s) {', '.join(missing)}. Restore it: git checkout -- {PUBLISHED}"
            )
        parts.append(part)
    return pd.concat(parts, ignore_index=True).fillna({"differs": ""})


def number(rows: pd.DataFrame, *keys: str, folds: int = 1) -> PublishedNumber:
    """A paper's number by its ``KEYS``, or ``NOTHING`` where no paper has one; ``folds`` is how many stand behind ours."""
    fields = dict(zip(KEYS, keys, strict=True))
    printed = rows[(rows[list(fields)] == pd.Series(fields)).all(axis=1)]
    # Found as ours is; else with nearly as many folds.
    far = (printed["folds"] - folds).abs() + FOLDS * (printed["differs"] != "")
    printed = printed[far == far.min()]
    if len(printed) > 1:
        raise UserError(f"{PUBLISHED} holds {len(printed)} rows for {' '.join(fields.values())}; keep one.")
    if printed.empty:
        return NOTHING
    row = printed.iloc[0]
    of_folds = OF_FOLDS[row["folds"]] if row["folds"] != folds else ""
    differs = "; ".join(filter(None, (of_folds, row["differs"])))
    return PublishedNumber(float(row["value"]), float(row["sd"]), str(row["source"]), differs)


def paper_columns(
    name: str, row: dict[str, Any], papers: pd.DataFrame | None, model: Model, metric: str, condition: str
) -> dict[str, Any]:
    """The paper's number beside the column ``name`` of ``row``, where it came from, and, if it compares, ours minus theirs."""
    keys = (*model, metric, condition)
    theirs = NOTHING if papers is None else number(papers, *keys, folds=row["folds"])
    return {
        f"published_{name}": theirs.value,
        f"published_{name}_sd": theirs.sd,
        f"published_{name}_source": theirs.source or math.nan,
        f"published_{name}_differs": theirs.differs or math.nan,
        f"difference_{name}": math.nan if theirs.differs else row[name] - theirs.value,
    }
