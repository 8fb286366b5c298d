"""Whether one number of a model tells another: rank correlation over models."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from bgbias.photos.folds import seed_and_fold
from bgbias.results.rows import MODEL

FEWEST_MODELS = 10
COLUMNS = ("rho", "rho_models")


def spearman(first: Sequence[float] | np.ndarray, second: Sequence[float] | np.ndarray) -> float:
    """Spearman's rank correlation of two numbers of the same models, those with a NaN left out.

    NaN of fewer than ``FEWEST_MODELS``, or where all have the same number. It comes without an interval: models are alike in
    groups, other seeds of one method, and such groups are too few for an interval over them.
    """
    numbers = pd.DataFrame({"first": first, "second": second})
    rho = numbers.corr("spearman", min_periods=FEWEST_MODELS).to_numpy()[0, 1]
    return round(float(rho), 12)  # the same order gives 1, not nearly 1


def add_correlations(table: pd.DataFrame, scores: pd.Series, levels: pd.DataFrame) -> pd.DataFrame:
    """A table of models with ``rho`` and ``rho_models``, the same for all of a dataset and backbone: how well ``scores`` of
    trainings, by the model's four names and seed, tell their relative drop, and of how many trainings.

    ``levels``: the drops, as ``rows.tabulate_seeds`` has them. The scores of a seed's folds are averaged.
    """
    runs = scores.rename("score").reset_index()
    runs["seed"] = [seed_and_fold(run)[0] for run in runs["seed"]]
    means = runs.groupby([*MODEL, "seed"], sort=False)["score"].mean().reset_index()
    every = means.merge(levels, on=[*MODEL, "seed"])
    lines = []
    for group, part in every.groupby(MODEL[:2], sort=False):
        rho = spearman(part["score"].to_numpy(), part["relative_drop"].to_numpy())
        lines.append(dict(zip(MODEL[:2], group, strict=True)) | {"rho": rho, "rho_models": len(part)})
    return table.merge(pd.DataFrame(lines, columns=[*MODEL[:2], *COLUMNS]), on=MODEL[:2], how="left")
