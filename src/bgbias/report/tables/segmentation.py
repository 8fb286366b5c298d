"""Table 4 as numbers: one-shot segmentation, one row a dataset, backbone, loss and method, and one for no model at all.

The paper's protocol with this project's photos, one object each (METHODS section 7). Percentages are 0..100.
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from bgbias.errors import UserError
from bgbias.report import names
from bgbias.report.names import PLAIN, PRETRAINED
from bgbias.results import uncertainty
from bgbias.results.model_rows import (
    MODEL,
    UNKNOWN,
    Model,
    interval,
    named,
    repetitions,
    without_single_folds,
)
from bgbias.results.rows import NEXT, resampling
from bgbias.segmentation.episodes import CENTRE, TASKS


def table4(values: pd.DataFrame) -> pd.DataFrame:
    """Table 4 from one IoU an episode, task and seed: the rows of all cells' segmentation.csv with the cells' names.

    Columns after the model's four names: ``seeds``, ``folds`` (if the grid has some), ``episodes``; for each of
    ``TASKS`` its mean IoU in percent over episodes, seeds and folds with 95 % bootstrap bounds ``_low`` and ``_high``,
    ``_sd_seeds`` (NaN for a single model), ``_map`` (of the map without GrabCut), and with paired bounds ``_gain``
    over plain and ``_over_centre`` over the centre prior. The prior has a row of its own, loss ``none`` and method
    ``centre``, first of each backbone.
    Raises UserError when models were asked different episodes, or one lacks a task.
    """
    priors = values[values["task"] == CENTRE].drop_duplicates(["dataset", "backbone", "image_id"])
    priors = priors.assign(loss="none", method=CENTRE, seed=0)
    every = pd.concat([*(priors.assign(task=task) for task in TASKS), values[values["task"] != CENTRE]])
    found: dict[Any, pd.DataFrame] = dict(iter(every.groupby(MODEL, sort=False, observed=True)))
    scores = {m: {task: _by_seed(part, m, task) for task in TASKS} for m, part in found.items()}
    made = []
    for model in names.in_order(every[MODEL].drop_duplicates()).itertuples(index=False, name=None):
        own, cured = found[model], model[-1] not in (CENTRE, PRETRAINED, PLAIN)
        others = {
            "gain": scores.get((*model[:3], PLAIN)) if cured else None,
            "over_centre": scores[(*model[:2], "none", CENTRE)] if model[-1] != CENTRE else None,
        }
        row = named(model) | repetitions(own, model) | {"episodes": own["image_id"].nunique()}
        for task in TASKS:
            row |= _mean(task, scores[model][task], model)
            row[f"{task}_map"] = 100 * own.loc[own["task"] == task, "map_iou"].mean()
            for name, other in others.items():
                row |= _difference(
                    f"{task}_{name}", scores[model][task], other[task] if other else None, model
                )
        made.append(row)
    return without_single_folds(pd.DataFrame(made))


def _by_seed(own: pd.DataFrame, model: Model, task: str) -> pd.DataFrame:
    """One IoU an episode (rows, by the test photo's id) and seed and fold (columns)."""
    wide = own[own["task"] == task].pivot(index="image_id", columns="seed", values="iou")
    if wide.empty or wide.isna().any(axis=None) or wide.shape[1] != own["seed"].nunique():
        raise UserError(
            f"{'/'.join(model)} lacks values for {task}, or its seeds were asked different episodes. {NEXT}"
        )
    return wide


def _mean(task: str, scores: pd.DataFrame, model: Model) -> dict[str, Any]:
    by_episode = uncertainty.per_query_mean(scores.to_numpy().T)
    (found,) = uncertainty.bootstrap_means([by_episode], resampling(*model[:2]))
    spread = uncertainty.sd_over_seeds(scores.mean().to_numpy()[:, None])
    return interval(task, found, 100) | {f"{task}_sd_seeds": 100 * spread}


def _difference(name: str, scores: pd.DataFrame, others: pd.DataFrame | None, model: Model) -> dict[str, Any]:
    """What a row has more than another, paired by episodes; unknown without the other."""
    if others is None:
        return interval(name, UNKNOWN, 100)
    if not scores.index.equals(others.index):
        raise UserError(f"{'/'.join(model)} was asked other episodes than what it is compared with. {NEXT}")
    means = [uncertainty.per_query_mean(part.to_numpy().T) for part in (scores, others)]
    return interval(
        name, uncertainty.bootstrap_drop(means[0], means[1], resampling(*model[:2])).absolute, 100
    )
