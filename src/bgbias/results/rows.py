"""What the rows of all tables share: a model's four names, how often it was trained, estimates, and its MAP@R query by query.

What tables and figures call clean and corrupted are conditions of ``evaluation/conditions``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from bgbias.errors import UserError
from bgbias.evaluation import conditions
from bgbias.photos.folds import FOLDS, seed_and_fold
from bgbias.results import uncertainty
from bgbias.results.uncertainty import Estimate
from bgbias.seeds import generator
from bgbias.study.cell import side_by_side

SYMMETRIC, QUERY_ONLY = conditions.SYMMETRIC, conditions.QUERY_ONLY
CLEAN, CORRUPTED = conditions.CLEAN, conditions.RANDOM_BACKGROUND
Model = tuple[str, str, str, str]
MODEL = ["dataset", "backbone", "loss", "method"]
UNKNOWN = Estimate(math.nan, math.nan, math.nan)
MAP_AT_R, PRECISION_AT_1 = "map_at_r", "precision_at_1"
NEXT = "Complete the grid: snakemake --cores all"


def named(model: Model) -> dict[str, Any]:
    """A row's first columns."""
    return dict(zip(MODEL, model, strict=True))


def repetitions(own: pd.DataFrame, model: Model) -> dict[str, int]:
    """Training seeds, and folds of each, in the column ``seed`` of a model's values."""
    seeds, of_folds = zip(*map(seed_and_fold, own["seed"].unique()), strict=True)
    return {"seeds": len(set(seeds)), "folds": FOLDS if side_by_side(model[-1])[1] else len(set(of_folds))}


def without_single_folds(table: pd.DataFrame) -> pd.DataFrame:
    """A table without the column ``folds`` where no model has several."""
    return table if (table["folds"] > 1).any() else table.drop(columns="folds")


def together(of_cells: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """The values of several cells below each other; no row if there are none."""
    if not of_cells:
        return pd.DataFrame(columns=[*MODEL, "seed"])
    values = pd.concat(of_cells, ignore_index=True)
    # Seeds are numbers; with a fold they are words, and a column has one type.
    if not pd.api.types.is_integer_dtype(values["seed"]):
        values["seed"] = values["seed"].astype(str)
    return values


def interval(name: str, estimate: Estimate, scale: float) -> dict[str, float]:
    """An estimate and its ends as columns ``name``, ``name_low`` and ``name_high``."""
    return {
        name: scale * estimate.value,
        f"{name}_low": scale * estimate.low,
        f"{name}_high": scale * estimate.high,
    }


def resampling(model: Model) -> np.random.Generator:
    """The same resampled queries for every model of a dataset: their intervals differ by the models alone."""
    return generator("bootstrap", *model[:2])


@dataclass(frozen=True)
class QueryValues:
    """MAP@R [N] as means over seeds and draws, of the queries ``images`` in the order of their names."""

    model: Model
    images: pd.Index
    clean: np.ndarray
    corrupted: np.ndarray
    query_only: np.ndarray

    @classmethod
    def of(cls, rows: pd.DataFrame, model: Model, draws: int) -> QueryValues:
        """The values in one model's ``rows`` of queries.parquet.

        Raises UserError if a seed, one of the ``draws``, or the same query in another condition is missing.
        """
        clean = _means(rows, model, SYMMETRIC, CLEAN, 1)
        corrupted = _means(rows, model, SYMMETRIC, CORRUPTED, draws)
        query_only = _means(rows, model, QUERY_ONLY, CORRUPTED, draws)
        if not (clean.index.equals(corrupted.index) and clean.index.equals(query_only.index)):
            raise UserError(f"{'/'.join(model)}: clean and corrupted values are of different queries. {NEXT}")
        return cls(model, clean.index, clean.to_numpy(), corrupted.to_numpy(), query_only.to_numpy())

    def drop(self) -> uncertainty.DropEstimate:
        """The drop with query and gallery corrupted (the paper's setting)."""
        return uncertainty.bootstrap_drop(self.clean, self.corrupted, resampling(self.model))

    def query_only_drop(self) -> uncertainty.DropEstimate:
        """The drop with corrupted queries against the clean gallery."""
        return uncertainty.bootstrap_drop(self.clean, self.query_only, resampling(self.model))

    def drop_beyond(self, other: QueryValues) -> uncertainty.DropEstimate:
        """This model's drop minus the other's, paired. Raises UserError if their queries differ."""
        if not self.images.equals(other.images):
            raise UserError(
                f"{'/'.join(self.model)} and {'/'.join(other.model)} were asked different queries. {NEXT}"
            )
        return uncertainty.bootstrap_difference_of_drops(
            self.clean, self.corrupted, other.clean, other.corrupted, resampling(self.model)
        )


def _means(rows: pd.DataFrame, model: Model, setting: str, condition: str, draws: int) -> pd.Series:
    part = rows[(rows["setting"] == setting) & (rows["condition"] == condition)]
    wide = part.pivot(index="image_id", columns=["seed", "draw"], values=MAP_AT_R)
    # A combination that is absent would look like a query to skip.
    if wide.empty or wide.size != len(part) or wide.shape[1] != draws * rows["seed"].nunique():
        raise UserError(f"{'/'.join(model)} lacks values a query for {setting} {condition}. {NEXT}")
    return pd.Series(uncertainty.per_query_mean(wide.to_numpy().T), wide.index)
