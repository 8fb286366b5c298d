"""Table 5: what the drop is made of, step by step from the photo as it is to random backgrounds (docs/methods.md, section 9).

    clean -> own_inpainted       what cutting the object out and pasting it costs by itself
          -> mixed_same          what this very background told, beyond its class's kind of background
          -> random_background   what the class's backgrounds told

The steps add up to the drop. Percentages are 0..100.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
import pandas as pd

from bgbias.evaluation import conditions
from bgbias.evaluation.metrics import OF_DONOR, map_at_r
from bgbias.photos.given import Given
from bgbias.report import sources
from bgbias.report.columns import Column, interval, number
from bgbias.report.tables import _captions as sentences
from bgbias.results import conflict, rows, uncertainty
from bgbias.study import plan
from bgbias.study.cell import Cell
from bgbias.study.params import Study

NUMBER = 5
TITLE = "What the drop is made of"
ABOUT = (
    "What the drop is made of: pasting by itself, this very background, and the class's kind of background; and how far"
    " models get by the object or the background alone."
)
PATH = (rows.CLEAN, "own_inpainted", "mixed_same", rows.CORRUPTED)
STEPS = ("pasting", "own_background", "class_background")
ALONE = ("only_fg", "no_fg", "only_bg")
# In the query alone: a gallery of photos that lend each other backgrounds would have them twice.
GAP = ("mixed_same", "mixed_rand")
COLUMNS = (
    Column("Drop, points", interval("drop", 1), "Drop [95 %]"),
    Column("Pasting", interval("pasting", 1), "Pasting [95 %]"),
    Column("Own background", interval("own_background", 1), "Own background"),
    Column("Class's backgrounds", interval("class_background", 1), "Class's"),
    Column("Clean", number("clean", 1)),
    Column("Own, inpainted", number("own_inpainted", 1)),
    Column("Of its class", number("mixed_same", 1)),
    Column("Random", number("random_background", 1)),
    Column("Gap, query only", interval("gap", 1), known=("gap",)),
    Column("Object alone", interval("only_fg", 1), known=("only_fg",)),
    Column("No object", interval("no_fg", 1), known=("no_fg",)),
    Column("Background alone", interval("only_bg", 1), known=("only_bg",)),
    Column("By chance", number("chance", 1), known=("only_bg",)),
    Column("Cue conflict, %", interval("cue_conflict", 1), known=("cue_conflict",)),
)
LEGEND = (
    "Points of MAP@R. Drop = pasting + own background + class's: what cutting and pasting costs, what this very",
    "background told, what its class's told. [95 %]: over classes and, from three on, training seeds.",
)
HEADLINE = {"pasting": "drop by pasting", "class_background": "drop by the class's backgrounds"}
settings = sentences.selection


def wanted(study: Study) -> bool:
    """Whether the grid's photos are seen in every condition on the way."""
    return set(PATH) <= set(study.evaluation.conditions)


def reads(study: Study) -> sources.Sources:
    return sources.collected("all_queries", "mask_report") | sources.of_photos(study)


def make(study: Study) -> pd.DataFrame:
    shown = study.evaluation.conditions
    more = [rows.PRECISION_AT_1, OF_DONOR] if GAP[1] in shown else []
    queries = sources.queries(study, [*rows.OF_QUERIES, *more])
    chance = {d: by_chance(s.labels, s.given) for d, s in sources.test_splits(study).items()}
    return table(queries, shown, study.evaluation.draws, plan.cells(study), chance)


def table(
    queries: pd.DataFrame,
    shown: Sequence[str],
    draws: int,
    cells: Sequence[Cell] = (),
    chance: Mapping[str, Mapping[int, float]] | None = None,
) -> pd.DataFrame:
    """Table 5 from the values a query of models that saw the conditions ``shown``, those with chance in them ``draws`` times.

    Columns after the model's four names: ``seeds``, ``folds`` (if the grid has some), ``queries``, ``classes``; the levels of
    ``PATH``, MAP@R in percent of query and gallery in that condition; ``STEPS``, the points lost from one to the next, and the
    ``drop`` that they add up to; if the grid has them, the levels of ``ALONE``, the ``gap``: MAP@R of queries in front of
    backgrounds of their class minus other classes', in a clean gallery, and the ``cue_conflict``: of the queries in front of
    another class's background whose nearest photo is of either class, the percentage that follow the background. Each with
    ``_low`` and ``_high``. ``chance``: MAP@R of the same queries by chance, from ``by_chance`` of each dataset. Raises
    UserError, naming the cell and what to type, where one of ``cells`` or one of its conditions is missing.
    """
    sources.refuse_missing(queries, cells)
    wanted = [*PATH, *(name for name in ALONE if name in shown)]
    views = {name: (rows.SYMMETRIC, name) for name in wanted}
    if set(GAP) <= set(shown):
        views |= {f"query_{name}": (rows.QUERY_ONLY, name) for name in GAP}
    times = {name: sum(view == name for view, _ in conditions.views(shown, draws)) for name in shown}
    asked = {name: (*view, times[view[1]]) for name, view in views.items()}
    lines = []
    for model, own in sources.models(queries):
        values = rows.seen(own, model, asked)
        row = rows.heading(own, values, "queries")
        for name in wanted:
            row |= rows.share(name, values.estimate([name]))
        for name, (before, after) in zip(STEPS, pairwise(PATH), strict=True):
            row |= rows.interval(name, values.estimate([before, after], uncertainty.difference), 100)
        row |= rows.interval("drop", values.estimate([PATH[0], PATH[-1]], uncertainty.difference), 100)
        if "query_mixed_rand" in asked:
            gap = values.estimate([f"query_{name}" for name in GAP], uncertainty.difference)
            row |= rows.interval("gap", gap, 100) | rows.share(
                "cue_conflict", conflict.estimate(own, model, draws)
            )
        if chance is not None:
            row["chance"] = 100 * float(np.nanmean([chance[model[0]][c] for c in values.classes]))
        lines.append(row)
    return rows.without_single_folds(pd.DataFrame(lines))


def by_chance(labels: np.ndarray, given: Given | None = None) -> dict[int, float]:
    """The expected MAP@R of a query of each class in a random order of all that it is asked among: all other photos, whose
    classes are ``labels`` [N], unless the dataset says who. NaN for a class with nobody to find.
    """
    if given is not None:
        of_class: dict[int, list[float]] = {}
        for row in np.flatnonzero(given.query):
            searched = given.searched(np.array([row]), labels)[0]
            relevant = np.array([(searched & (labels == labels[row])).sum()])
            of_class.setdefault(int(labels[row]), []).extend(map_at_r.by_chance(relevant, searched.sum()))
        return {c: uncertainty.mean(np.array(found)) for c, found in of_class.items()}
    classes, sizes = np.unique(labels, return_counts=True)
    return dict(zip(classes.tolist(), map_at_r.by_chance(sizes - 1, len(labels) - 1).tolist(), strict=True))


def caption(study: Study, table: pd.DataFrame, excluded: Mapping[str, int]) -> str:
    levels = {
        "gap": " Gap: queries in front of backgrounds of their class minus in front of other classes', the gallery clean.",
        "cue_conflict": " Cue conflict: such queries whose nearest photo is of the background's class, of those whose nearest"
        " is of the background's or the object's.",
        "only_fg": " Object alone: on grey; no object: grey in its place, whose outline is left; background alone: filled."
        " By chance: expected MAP@R of a random order.",
    }
    return (
        f"{sentences.title(TITLE, table)} Points of MAP@R, query and gallery in the same condition."
        f"{sentences.trained(study, table)}{sentences.exclusions(excluded, 'are no queries')}\n\n"
        "Drop = pasting + own background + class's backgrounds. Pasting: from the photo to its object in front of its own"
        " background, whose hole is filled from around it. Own background: from there to backgrounds of other photos of the"
        " class, filled likewise. Class's backgrounds: from there to random ones. What a mask misses of an object stays in the"
        f" picture where the background is its own, and counts as background.{''.join(levels[c] for c in levels if c in table)}"
        f" {sentences.intervals(table)}"
    )
