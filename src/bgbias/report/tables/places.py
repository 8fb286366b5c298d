"""What another place costs beside what composites cost, and how much of it the background carries.

How: ``results.places``. Percentages are 0..100.
"""

import pandas as pd

from bgbias.errors import UserError
from bgbias.report import sources
from bgbias.report.columns import Column, against_plain, interval
from bgbias.results import places, rows
from bgbias.study.params import Study

NUMBER = 16
CAPTION = "places.j2"
ESTIMATES = ("here", "there", "natural", "composite", "on_composites", "carried")
COLUMNS = (
    Column("Another place, %", interval("natural", 1), "Another place, %"),
    Column("Composites, %", interval("on_composites", 1), "Composites, %"),
    Column("Carried by backgrounds, %", interval("carried", 0), "Carried, %"),
    Column("Same place", interval("here", 1)),
    Column("Another place", interval("there", 1)),
    Column("More than plain there", against_plain("there_difference", 1), "more [95 %]"),
    Column("Random backgrounds", interval("composite", 1)),
)
HEADLINE = {"natural": "drop from another place"}
reads = sources.make_reads("all_queries", "mask_report", photos=True)


def wanted(study: Study) -> bool:
    """Whether the grid's photos are seen on backgrounds of both places."""
    return {condition for _, condition in places.CARRIED.values()} <= set(study.evaluation.conditions)


def make(study: Study) -> pd.DataFrame:
    return table(sources.queries(study))


def table(queries: pd.DataFrame) -> pd.DataFrame:
    """Table 16 from the values a query: ``ESTIMATES`` of ``places.AcrossPlaces`` in percent, and ``there_difference``, in
    points more than plain at another place. A UserError where no dataset says places.
    """
    lines, of_models = [], {}
    for model, model_rows in sources.models(queries):
        if across := places.compare_places(model_rows, model):
            values = of_models[model] = places.values_for_views(model_rows, model, places.LEVELS)
            row = rows.name_columns(model) | rows.repetitions(model_rows, model)
            row |= {"queries": across.queries, "classes": across.classes}
            for name in ESTIMATES:
                row |= rows.interval(name, getattr(across, name), 100)
            more = values.against(rows.plain_of(of_models, model), ["there"])
            lines.append(row | rows.tested("there_difference", more, 100))
    if not lines:
        raise UserError(
            "No dataset of the grid has a class that was seen in two places, of which Table 16 speaks. Add a column 'place' to a"
            " dataset of kind table, or take class_here and class_there out of evaluation.conditions in params.yaml."
        )
    return rows.tabulate_models(lines)
