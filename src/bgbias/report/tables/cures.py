"""Cures without training, on every model: what masks of the pictures that come, or a projection of
embeddings, make of it, and what that takes.

docs/methods.md, section 14. Percentages are 0..100.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from bgbias.evaluation.across_places import OTHER_PLACE
from bgbias.report import sources
from bgbias.report.columns import NOTHING, Column, against_plain, interval, number, significant
from bgbias.results import places, rows, uncertainty
from bgbias.study import plan
from bgbias.study.params import Study

NUMBER = 7
CAPTION = "cures.j2"
INDEX = {"again": "made again", "mapped": "multiplied once"}
COLUMNS = (
    Column("Corrupted", interval("corrupted", 1), "Corrupted [95 %]"),
    Column("More than without", against_plain("corrupted_gain", 1), "more [95 %]"),
    Column("Clean", interval("clean", 1), "Clean"),
    Column("More than without", against_plain("clean_gain", 1), "more [95 %]"),
    Column("Drop, %", interval("relative_drop", 1), "Drop, %"),
    Column("Clean, another place", interval("other_place", 1), "Another place", known=("other_place",)),
    Column("More than without", against_plain("other_place_gain", 1), "more [95 %]", known=("other_place",)),
    Column("Index as it is, corrupted", interval("query_corrupted", 1), "Old index"),
    Column("Index as it is, clean", number("query_clean", 1)),
    Column("Removed", number("removed", 0)),
    Column("Weight", number("weight", 2), known=("weight",)),
    Column("Bytes a photo", number("bytes", 0), known=("bytes",)),
    Column("ms a photo", significant("ms"), "ms"),
    Column("Index", lambda row: str(row["index"])),
)
HEADLINE = {"corrupted": "MAP@R, corrupted", "clean": "MAP@R, clean"}
VIEWS = {
    "clean": (rows.SYMMETRIC, rows.CLEAN),
    "corrupted": (rows.SYMMETRIC, rows.CORRUPTED),
    "query_clean": (rows.QUERY_ONLY, rows.CLEAN),
    "query_corrupted": (rows.QUERY_ONLY, rows.CORRUPTED),
}
ACROSS = {"other_place": (OTHER_PLACE, rows.CLEAN)}
MEASURED = ["removed", "weight", "bytes", "ms"]
wanted = plan.cures
reads = sources.make_reads("all_queries", "mask_report", cells=(plan.networks, "cure", "cured", "cures"))


def make(study: Study) -> pd.DataFrame:
    cured, facts = sources.read_cells(study, reads, "cured", "cures")
    return table(sources.queries(study), cured, facts, study.cures.draws)


def table(before: pd.DataFrame, cured: pd.DataFrame, facts: pd.DataFrame, draws: int) -> pd.DataFrame:
    """Table 7 from queries.parquet and from all cells' cured.parquet and cures.csv with the cells' names.

    A row for each model and, below it, one for each cure, whose method is ``<method>+<cure>``. ``corrupted`` and ``clean``
    are of query and gallery alike, ``query_*`` in the clean gallery of the model without the cure, ``other_place``, where
    photos say their places, clean among photos of another place; ``*_gain`` are points more than the model without the
    cure, corrected for its cures; ``removed`` directions, the fitted ``weight`` of second pictures, a mean over seeds,
    ``bytes`` and ``ms`` a photo, and what becomes of an ``index``. All are of the first ``draws`` backgrounds.
    """
    lines = []
    across = ACROSS if OTHER_PLACE in set(cured["setting"]) else {}
    of_cures = dict(iter(cured.groupby(rows.MODEL, sort=False)))
    numbers = facts.groupby([*rows.MODEL, "cure"], sort=False)[[*MEASURED, "alone_ms"]].mean()
    numbers["removed"] = numbers["removed"].replace(0, np.nan)
    facts_of = dict(zip(numbers.index, numbers.to_dict("records"), strict=True))
    of_index = dict(zip(facts["cure"], facts["index"], strict=True))
    for model, model_rows in sources.models(before[before["draw"] < draws]):
        if model not in of_cures:
            continue
        views = {name: view for name, view in VIEWS.items() if name != "query_clean"}
        alone = _values(model_rows, model, views, across)
        repeated = rows.repetitions(model_rows, model) | {"of": model[-1]}
        alone_ms = [fact["alone_ms"] for key, fact in facts_of.items() if key[:-1] == model]
        lines.append(_row(alone) | repeated | {"ms": sum(alone_ms) / len(alone_ms)})
        for name, part in of_cures[model].groupby("cure", sort=False):
            label = (*model[:3], f"{model[3]}+{name}")
            values = _values(part, label, VIEWS, across)
            row = _row(values) | repeated
            for column in ("corrupted", "clean", *across):
                row |= rows.tested(f"{column}_gain", values.against(alone, [column]), 100)
            took = {column: facts_of[*model, name][column] for column in MEASURED}
            lines.append(row | took | {"index": INDEX[of_index[name]]})
    result = rows.tabulate_models(lines, within=(*rows.MODEL[:-1], "of"))
    return result.drop(columns="of").fillna({"index": NOTHING})


def _values(
    part: pd.DataFrame,
    model: rows.Model,
    views: Mapping[str, tuple[str, str]],
    across: Mapping[str, tuple[str, str]],
) -> rows.Values:
    values = rows.values_for_views(part, model, views)
    if not across:
        return values
    of_places = places.values_for_views(part, model, across)
    return replace(
        values,
        columns={**values.columns, **of_places.columns},
        of_others={**values.of_others, **of_places.of_others},
    )


def _row(values: rows.Values) -> dict[str, Any]:
    row = rows.name_columns(values.model)
    row |= {"queries": len(values.queries), "classes": len(set(values.classes))}
    for name in values.columns:
        row |= rows.interval(name, values.estimate([name]), 100)
    drop = values.estimate(["clean", "corrupted"], uncertainty.relative_drop)
    return row | rows.interval("relative_drop", drop, 100)
