"""Re-identification: mAP and CMC where queries, gallery and cameras are given, and what other
backgrounds cost.

docs/methods.md, section 15. Percentages are 0..100.
"""

from typing import Any

import numpy as np
import pandas as pd

from bgbias.evaluation.metrics import AP_OTHERS
from bgbias.report import sources
from bgbias.report.columns import Column, interval, number, published_number
from bgbias.results import published, rows, uncertainty
from bgbias.study import plan
from bgbias.study.params import Study

NUMBER = 11
CAPTION = "reidentification.j2"
AP = "average_precision"
CMC = ("cmc_1", "cmc_5", "cmc_10")
SINGLE_SHOT = tuple(f"single_shot_{name}" for name in CMC)
COLUMNS = (
    Column("mAP", interval("map", 1), "mAP [95 %]", gain="map_difference"),
    Column("CMC@1", interval("cmc_1", 1), "CMC@1 [95 %]", gain="cmc_1_difference"),
    Column("CMC@5", number("cmc_5", 1)),
    Column("CMC@10", number("cmc_10", 1)),
    Column("mAP, corrupted", interval("map_corrupted", 1), "mAP corrupted"),
    Column("CMC@1, corrupted", interval("cmc_1_corrupted", 1), "CMC@1 corrupted"),
    Column("Drop of mAP, %", interval("relative_drop", 1), "Drop, %"),
    *(Column(f"Single shot, CMC@{name.rpartition('_')[2]}", number(name, 1)) for name in SINGLE_SHOT),
    Column("Paper, mAP", published_number("map", 1), known=("published_map",)),
    Column("Paper, CMC@1", published_number("cmc_1", 1), known=("published_cmc_1",)),
)
VIEWS = rows.views_in(rows.SYMMETRIC, (rows.CLEAN, rows.CORRUPTED))
HEADLINE = {"map": "mAP", "cmc_1": "CMC@1"}
settings = published.settings
wanted = plan.someone_given
reads = sources.make_reads("all_queries", "mask_report")


def make(study: Study) -> pd.DataFrame:
    columns = [*rows.MODEL, "seed", "setting", "condition", "draw", "image_id", "label"]
    queries = sources.queries(study, [*columns, AP, AP_OTHERS, *CMC, *SINGLE_SHOT])
    return table(queries, published.read())


def table(queries: pd.DataFrame, papers: pd.DataFrame | None = None) -> pd.DataFrame:
    """Table 11 from the values a query: of ``queries`` with somebody to find.

    ``map``, ``cmc_*`` and ``single_shot_cmc_*`` are of original photos in percent, ``*_corrupted`` of query and gallery on
    random backgrounds, ``relative_drop`` of mAP; ``map_difference`` and ``cmc_1_difference`` of original photos
    minus plain's, in points; and what a paper has, ``published_*`` as in Table 1.
    """
    lines: list[dict[str, Any]] = []
    compared: dict[str, dict[rows.Model, rows.Values]] = {"map": {}, "cmc_1": {}}
    for model, part in sources.models(queries):
        precision = rows.values_for_views(part, model, VIEWS, AP, AP_OTHERS)
        has_match = np.isfinite(precision.columns[rows.CLEAN][0])
        row = rows.heading(part, precision, "queries", has_match)
        for name, values in (
            ("map", precision),
            ("cmc_1", rows.values_for_views(part, model, VIEWS, CMC[0], "")),
        ):
            compared[name][model] = values
            row |= rows.share(name, values.estimate([rows.CLEAN]))
            row |= rows.share(f"{name}_corrupted", values.estimate([rows.CORRUPTED]))
            more = values.against(rows.plain_of(compared[name], model), [rows.CLEAN])
            row |= rows.tested(f"{name}_difference", more, 100)
        drop = precision.estimate([rows.CLEAN, rows.CORRUPTED], uncertainty.relative_drop)
        row |= rows.interval("relative_drop", drop, 100)
        for name in (*CMC[1:], *SINGLE_SHOT):
            row[name] = 100 * rows.values_for_views(part, model, VIEWS, name, "").estimate([rows.CLEAN]).value
        for name, metric in (("map", AP), ("cmc_1", CMC[0])):
            row |= published.paper_columns(name, row, papers, model, metric, rows.CLEAN)
        lines.append(row)
    return rows.tabulate_models(lines)
