"""One model's MAP@R query by query, and what its drop is worth: the paired half of Table 1."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from bgbias.errors import UserError
from bgbias.evaluation import conditions
from bgbias.results import uncertainty
from bgbias.seeds import generator

SYMMETRIC, QUERY_ONLY = conditions.SYMMETRIC, conditions.QUERY_ONLY
CLEAN, CORRUPTED = conditions.CLEAN, conditions.RANDOM_BACKGROUND
MAP_AT_R = "map_at_r"
NEXT = "Complete the grid: snakemake --cores all"


def resampling(dataset: str, backbone: str) -> np.random.Generator:
    """The same resampled queries for every model of a dataset: their intervals differ by the models alone."""
    return generator("bootstrap", dataset, backbone)


@dataclass(frozen=True)
class QueryValues:
    """MAP@R [N] as means over seeds and draws, of the queries ``images`` in the order of their names."""

    model: tuple[str, str, str, str]
    images: pd.Index
    clean: np.ndarray
    corrupted: np.ndarray
    query_only: np.ndarray

    @classmethod
    def of(cls, rows: pd.DataFrame, model: tuple[str, str, str, str], draws: int) -> QueryValues:
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
        return uncertainty.bootstrap_drop(self.clean, self.corrupted, resampling(*self.model[:2]))

    def query_only_drop(self) -> uncertainty.DropEstimate:
        """The drop with corrupted queries against the clean gallery."""
        return uncertainty.bootstrap_drop(self.clean, self.query_only, resampling(*self.model[:2]))

    def drop_beyond(self, other: QueryValues) -> uncertainty.DropEstimate:
        """This model's drop minus the other's, paired. Raises UserError if their queries differ."""
        if not self.images.equals(other.images):
            raise UserError(
                f"{'/'.join(self.model)} and {'/'.join(other.model)} were asked different queries. {NEXT}"
            )
        return uncertainty.bootstrap_difference_of_drops(
            self.clean, self.corrupted, other.clean, other.corrupted, resampling(*self.model[:2])
        )


def _means(rows: pd.DataFrame, model: tuple[str, ...], setting: str, condition: str, draws: int) -> pd.Series:
    part = rows[(rows["setting"] == setting) & (rows["condition"] == condition)]
    wide = part.pivot(index="image_id", columns=["seed", "draw"], values=MAP_AT_R)
    # A combination that is absent would look like a query to skip.
    if wide.empty or wide.size != len(part) or wide.shape[1] != draws * rows["seed"].nunique():
        raise UserError(f"{'/'.join(model)} lacks values a query for {setting} {condition}. {NEXT}")
    return pd.Series(uncertainty.per_query_mean(wide.to_numpy().T), wide.index)
