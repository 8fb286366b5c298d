"""One-shot segmentation: what a model compares a photo with others of its class by, then GrabCut,
judged by the object's true place.

The paper's protocol with this project's photos, one object each (docs/methods.md, section 7).
Percentages are 0..100.
"""

from typing import Any

import pandas as pd

from bgbias.report import names, sources
from bgbias.report.columns import Column, interval, number
from bgbias.results import rows, uncertainty
from bgbias.segmentation.episodes import CENTRE, TASKS
from bgbias.study import plan
from bgbias.study.cell import NO_LOSS
from bgbias.study.params import Study

NUMBER = 4
CAPTION = "segmentation.j2"
HEADS = (("1-way 1-shot", "1-1"), ("2-way 1-shot", "2-1"), ("2-way 5-shot", "2-5"))
COLUMNS = tuple(
    column
    for task, (name, short) in zip(TASKS, HEADS, strict=True)
    for column in (
        Column(name, interval(task, 1), short, gain=f"{task}_gain"),
        Column("± seeds", number(f"{task}_sd_seeds", 1)),
        Column("Map alone", number(f"{task}_map", 1)),
        Column("Over plain", interval(f"{task}_gain", 1)),
        Column("Over centre", interval(f"{task}_over_centre", 1), "Over centre" * (task == TASKS[-1])),
    )
)
wanted = plan.segments
HEADLINE = {task: f"IoU {name}" for task, (name, _) in zip(TASKS, HEADS, strict=True)}
reads = sources.make_reads(cells=(plan.networks, "segment", "segmentation"))


def make(study: Study) -> pd.DataFrame:
    return table(*sources.read_cells(study, reads, "segmentation"))


def table(values: pd.DataFrame) -> pd.DataFrame:
    """Table 4 from one IoU an episode, task and seed: the rows of all cells' segmentation.csv with the cells' names.

    For each of ``TASKS`` its mean IoU in percent over episodes, seeds and folds, ``_sd_seeds`` (NaN for a single model),
    ``_map`` (of the map without GrabCut), ``_gain`` over plain and ``_over_centre`` over the centre prior. The prior has a
    row of its own, loss ``none`` and method ``centre``, first of each backbone. Raises UserError when models were asked
    different episodes.
    """
    priors = values[values["task"] == CENTRE].drop_duplicates(["dataset", "backbone", "image_id"])
    priors = priors.assign(loss=NO_LOSS, method=CENTRE, seed=0)
    every = pd.concat([*(priors.assign(task=task) for task in TASKS), values[values["task"] != CENTRE]])
    scores: dict[rows.Model, rows.Values] = {}
    lines = []
    for model, model_rows in sources.models(every):
        iou = scores[model] = rows.Values.from_kinds(model, model_rows, "task", TASKS, "iou")
        others = {
            "gain": rows.plain_of(scores, model),
            "over_centre": scores[(*model[:2], NO_LOSS, CENTRE)] if model[-1] != CENTRE else None,
        }
        row = rows.heading(model_rows, iou, "episodes")
        for task in TASKS:
            by_seed = model_rows[model_rows["task"] == task].groupby("seed")["iou"].mean().to_numpy()
            row |= rows.interval(task, iou.estimate([task]), 100)
            row[f"{task}_sd_seeds"] = 100 * uncertainty.sd_over_seeds(by_seed[:, None])
            row[f"{task}_map"] = 100 * model_rows.loc[model_rows["task"] == task, "map_iou"].mean()
            for name, other in others.items():
                row |= rows.tested(f"{task}_{name}", iou.against(other, [task]), 100)
        lines.append(row)
    return rows.tabulate_models(lines, names=[f"{task}_gain" for task in TASKS])


def facts(study: Study, _table: pd.DataFrame) -> dict[str, Any]:
    """By what the caption says that objects' true places are known."""
    return {"truths": [f"{names.dataset(d)} by {plan.truth(study, d)}" for d in plan.datasets(study)]}
