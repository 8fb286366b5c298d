"""Table 4: one-shot segmentation, a row a model, and one for no model at all.

The paper's protocol with this project's photos, one object each (docs/methods.md, section 7). Percentages are 0..100.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from bgbias.engine.node import Made, step
from bgbias.errors import UserError
from bgbias.report import columns as words
from bgbias.report import names
from bgbias.report.columns import Column
from bgbias.report.tables import _captions as sentences
from bgbias.results import rows, uncertainty
from bgbias.segmentation.episodes import CENTRE, TASKS
from bgbias.study import plan
from bgbias.study.cell import PLAIN, PRETRAINED
from bgbias.study.params import Study

NUMBER = 4
ABOUT = (
    "One-shot segmentation: what a model compares a photo with others of its class by, then GrabCut, judged by the object's true"
    " place."
)
HEADS = (("1-way 1-shot", "1-1"), ("2-way 1-shot", "2-1"), ("2-way 5-shot", "2-5"))
COLUMNS = tuple(
    column
    for task, (name, short) in zip(TASKS, HEADS, strict=True)
    for column in (
        Column(name, words.interval(task, 1), short, best=task),
        Column("± seeds", words.number(f"{task}_sd_seeds", 1)),
        Column("Map alone", words.number(f"{task}_map", 1)),
        Column("Over plain", words.interval(f"{task}_gain", 1)),
        Column("Over centre", words.interval(f"{task}_over_centre", 1), "Over centre" * (task == TASKS[-1])),
    )
)
LEGEND = (
    "Mean IoU in % of GrabCut from similarity attention; 1-1, 2-1, 2-5: ways and shots. Over centre: over",
    "the centre prior's. [95 %]: paired bootstrap over episodes.",
)
settings = sentences.selection
HEADLINE = {task: f"IoU {name}" for task, (name, _) in zip(TASKS, HEADS, strict=True)}


def wanted(study: Study) -> bool:
    """Whether the grid asks for one-shot segmentation."""
    return plan.segments(study)


def reads(study: Study) -> dict[str, Made]:
    """The episodes of every network of the grid."""
    return {
        f"segmentation {c.name}": Made(step("segment", cell=c), "segmentation") for c in plan.networks(study)
    }


def make(study: Study) -> pd.DataFrame:
    """The table of a study; see ``table``."""
    of_cells = [
        pd.read_csv(m.path(study), keep_default_na=False, na_values=[""]).assign(**m.node.wildcards)
        for m in reads(study).values()
    ]
    return table(rows.together(of_cells))


def caption(study: Study, table: pd.DataFrame) -> str:
    """The caption of a study's table; see ``told``."""
    judged = {d: str(plan.truth(study, d)) for d in plan.datasets(study)}
    return told(table, study.train.selection, study.segmentation.score, judged)


def table(values: pd.DataFrame) -> pd.DataFrame:
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
    of_model: dict[Any, pd.DataFrame] = dict(iter(every.groupby(rows.MODEL, sort=False, observed=True)))
    scores = {m: {task: _by_seed(part, m, task) for task in TASKS} for m, part in of_model.items()}
    lines = []
    for model in names.in_order(every[rows.MODEL].drop_duplicates()).itertuples(index=False, name=None):
        own, cured = of_model[model], model[-1] not in (CENTRE, PRETRAINED, PLAIN)
        others = {
            "gain": scores.get((*model[:3], PLAIN)) if cured else None,
            "over_centre": scores[(*model[:2], "none", CENTRE)] if model[-1] != CENTRE else None,
        }
        row = rows.named(model) | rows.repetitions(own, model) | {"episodes": own["image_id"].nunique()}
        for task in TASKS:
            row |= _mean(task, scores[model][task], model)
            row[f"{task}_map"] = 100 * own.loc[own["task"] == task, "map_iou"].mean()
            for name, other in others.items():
                beside = other[task] if other else None
                row |= _difference(f"{task}_{name}", scores[model][task], beside, model)
        lines.append(row)
    return rows.without_single_folds(pd.DataFrame(lines))


def told(table: pd.DataFrame, selection: str, score: str, judged: Mapping[str, str]) -> str:
    """Two paragraphs: what was measured, on whom, and how to read each column.

    ``score`` is what similarity attention asked, ``judged`` each dataset's truth: ``masks`` or ``boxes``.
    """
    by = ", ".join(f"{names.dataset(dataset)} by {truth}" for dataset, truth in judged.items())
    return (
        "**One-shot segmentation by similarity attention, then GrabCut.** Mean IoU in percent with the object's true place"
        f" ({by}); of boxes, it is that of the largest part's box. Every episode has a test photo of its own, and no model was"
        f" trained to segment.{sentences.selected(selection)}"
        f" {sentences.seeds(table)}; attention by the {score} score.{sentences.folds(table)}\n\n"
        "A map's object is as large a share of its photo as objects of validation photos are in the mean: maps differ by"
        " where they point, not by how they are spread. 1-way: with one photo of the class; 2-way: with one (five) of it and"
        " as many of another class, the mean of the maps. Map alone: without GrabCut. Over plain, over centre: IoU more than"
        " plain's, than the centre prior's, which is one map for all photos, bright in the middle."
        f" [low, high]: {sentences.bootstrap('episodes')}. ± seeds: sample sd over training seeds, – for one."
        " Zheng et al. (2020) report 41.6 (1-way 1-shot), 56.9 and 60.1 (2-way 1- and 5-shot) on PASCAL-5i, other photos with"
        " several objects each: no number here compares with theirs."
    )


def _by_seed(own: pd.DataFrame, model: rows.Model, task: str) -> pd.DataFrame:
    """One IoU an episode (rows, by the test photo's id) and seed and fold (columns)."""
    wide = own[own["task"] == task].pivot(index="image_id", columns="seed", values="iou")
    if wide.empty or wide.isna().any(axis=None) or wide.shape[1] != own["seed"].nunique():
        raise UserError(
            f"{'/'.join(model)} lacks values for {task}, or its seeds were asked different episodes. {rows.NEXT}"
        )
    return wide


def _mean(task: str, scores: pd.DataFrame, model: rows.Model) -> dict[str, Any]:
    by_episode = uncertainty.per_query_mean(scores.to_numpy().T)
    (estimate,) = uncertainty.bootstrap_means([by_episode], rows.resampling(model))
    spread = uncertainty.sd_over_seeds(scores.mean().to_numpy()[:, None])
    return rows.interval(task, estimate, 100) | {f"{task}_sd_seeds": 100 * spread}


def _difference(
    name: str, scores: pd.DataFrame, others: pd.DataFrame | None, model: rows.Model
) -> dict[str, Any]:
    """What a row has more than another, paired by episodes; unknown without the other."""
    if others is None:
        return rows.interval(name, rows.UNKNOWN, 100)
    if not scores.index.equals(others.index):
        raise UserError(
            f"{'/'.join(model)} was asked other episodes than what it is compared with. {rows.NEXT}"
        )
    mine, theirs = (uncertainty.per_query_mean(part.to_numpy().T) for part in (scores, others))
    more = uncertainty.bootstrap_drop(mine, theirs, rows.resampling(model)).absolute
    return rows.interval(name, more, 100)
