"""What the drop is made of: pasting by itself, this very background, and the class's kind of
background; and how far models get by the object or the background alone.

What the steps are: ``results.decomposition``. Percentages are 0..100.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from bgbias.evaluation.metrics import OF_DONOR
from bgbias.report import sources
from bgbias.report.columns import Column, interval, number
from bgbias.results import conflict, rows, uncertainty
from bgbias.results.decomposition import GAP, OF_QUERIES, PATH, chance_levels, matched_values, steps
from bgbias.study.params import Study

NUMBER = 5
CAPTION = "decomposition.j2"
ALONE = ("only_fg", "no_fg", "only_bg")
# What is lost from the object where it stood, on its own background, to the object placed otherwise on the same one.
OF_PLACING = {"position": "moved", "size": "scaled"}
COLUMNS = (
    Column("Drop, points", interval("drop", 1), "Drop [95 %]"),
    Column("Pasting", interval("pasting", 1), "Pasting [95 %]"),
    Column("Own background", interval("own_background", 1), "Own background", known=("own_background",)),
    Column("Class's backgrounds", interval("class_background", 1), "Class's", known=("class_background",)),
    Column("Position", interval("position", 1), known=("position",)),
    Column("Size", interval("size", 1), known=("size",)),
    Column("Clean", number("clean", 1)),
    Column("Own, inpainted", number("own_inpainted", 1)),
    Column("Of its class", number("mixed_same", 1), known=("mixed_same",)),
    Column("Random", number("random_background", 1)),
    Column("Gap, query only", interval("gap", 1), known=("gap",)),
    Column("Object alone", interval("only_fg", 1), known=("only_fg",)),
    Column("No object", interval("no_fg", 1), known=("no_fg",)),
    Column("Background alone", interval("only_bg", 1), known=("only_bg",)),
    Column("By chance", number("chance", 1), known=("only_bg",)),
    Column("Cue conflict, %", interval("cue_conflict", 1), known=("cue_conflict",)),
)
HEADLINE = {"pasting": "drop by pasting", "class_background": "drop by the class's backgrounds"}
reads = sources.make_reads("all_queries", "mask_report", photos=True)


def wanted(study: Study) -> bool:
    """Whether the grid's photos are seen in every condition on the way."""
    return set(PATH) <= set(study.evaluation.conditions)


def make(study: Study) -> pd.DataFrame:
    conditions = study.evaluation.conditions
    more = [rows.PRECISION_AT_1, OF_DONOR] if GAP[1] in conditions else []
    queries = sources.queries(study, [*OF_QUERIES, *more])
    chance = {d: chance_levels(s.labels, s.given) for d, s in sources.test_splits(study).items()}
    return table(queries, conditions, chance)


def table(
    queries: pd.DataFrame,
    conditions: Sequence[str],
    chance: Mapping[str, Mapping[int, float]] | None = None,
) -> pd.DataFrame:
    """Table 5 from the values a query of models that saw these ``conditions``.

    The levels of ``PATH``, MAP@R in percent of query and gallery in that condition, in galleries that lack the same photos
    in each, and how many queries have a value in all; ``STEPS``, the points lost from one to the next, and the ``drop`` that
    they add up to; if the grid has them, the levels of ``ALONE``, the ``gap``: MAP@R of queries on backgrounds of their class
    minus other classes', in a clean gallery, and the ``cue_conflict``: of the queries on another class's background whose
    nearest photo is of either class, the percentage that follow the background; ``position`` and ``size``, the points lost
    where objects are moved or scaled on their own background, in whole galleries. ``chance``: MAP@R of the same queries by
    chance, from ``chance_levels`` of each dataset.
    """
    alone = rows.views_in(rows.SYMMETRIC, [name for name in ALONE if name in conditions])
    lines = []
    for model, model_rows in sources.models(queries):
        values = matched_values(model_rows, model, rows.SYMMETRIC, PATH)
        has_all = np.all([np.isfinite(values.columns[name]).all(axis=0) for name in PATH], axis=0)
        row = rows.heading(model_rows, values, "queries", has_all)
        row |= rows.shares(values, PATH)
        for name, estimate in steps(values).items():
            row |= rows.interval(name, estimate, 100)
        for name, condition in OF_PLACING.items():
            if condition in conditions:
                both = ("own_inpainted", condition)
                placed = rows.values_for_views(model_rows, model, rows.views_in(rows.SYMMETRIC, both))
                row |= rows.interval(name, placed.estimate(both, uncertainty.difference), 100)
        if alone:
            row |= rows.shares(rows.values_for_views(model_rows, model, alone), alone)
        if set(GAP) <= set(conditions):
            pair = matched_values(model_rows, model, rows.QUERY_ONLY, GAP)
            row |= rows.interval("gap", pair.estimate(GAP, uncertainty.difference), 100)
            row |= rows.share("cue_conflict", conflict.estimate(model_rows, model))
        if chance is not None:
            row["chance"] = 100 * float(np.nanmean([chance[model[0]][c] for c in values.classes]))
        lines.append(row)
    return rows.tabulate_models(lines)
