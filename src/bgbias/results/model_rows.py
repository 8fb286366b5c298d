"""What the rows of all tables share: a model's four names, how often it was trained, and estimates with their ends."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from bgbias.photos.folds import FOLDS, seed_and_fold
from bgbias.results.uncertainty import Estimate
from bgbias.study import cell

Model = tuple[str, str, str, str]
MODEL = ["dataset", "backbone", "loss", "method"]
UNKNOWN = Estimate(math.nan, math.nan, math.nan)


def named(model: Model) -> dict[str, Any]:
    """A row's first columns."""
    return dict(zip(MODEL, model, strict=True))


def repetitions(own: pd.DataFrame, model: Model) -> dict[str, int]:
    """Training seeds, and folds of each, in the column ``seed`` of a model's values."""
    seeds, of_folds = zip(*map(seed_and_fold, own["seed"].unique()), strict=True)
    _, side_by_side = cell.side_by_side(model[-1])
    return {"seeds": len(set(seeds)), "folds": FOLDS if side_by_side else len(set(of_folds))}


def without_single_folds(made: pd.DataFrame) -> pd.DataFrame:
    """A table without the column ``folds`` where no model has several."""
    return made if (made["folds"] > 1).any() else made.drop(columns="folds")


def together(of_cells: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """The values of several cells below each other."""
    made = pd.concat(of_cells, ignore_index=True)
    # Seeds are numbers; with a fold they are words, and a column has one type.
    if not pd.api.types.is_integer_dtype(made["seed"]):
        made["seed"] = made["seed"].astype(str)
    return made


def interval(name: str, estimate: Estimate, scale: float) -> dict[str, float]:
    """An estimate and its ends as columns ``name``, ``name_low`` and ``name_high``."""
    return {
        name: scale * estimate.value,
        f"{name}_low": scale * estimate.low,
        f"{name}_high": scale * estimate.high,
    }
