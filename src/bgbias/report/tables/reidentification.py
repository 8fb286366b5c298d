"""Table 11: person re-identification, a row a model: mAP and CMC, clean and in front of random backgrounds.

docs/methods.md, section 15. Percentages are 0..100.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from bgbias.engine.node import Made, files_of, step
from bgbias.evaluation.metrics import AP_OTHERS
from bgbias.report import columns as words
from bgbias.report.columns import Column
from bgbias.report.tables import _captions as sentences
from bgbias.report.tables._rows import comparison, models, protocol
from bgbias.results import published, rows, uncertainty
from bgbias.results.rows import CLEAN, CORRUPTED, SYMMETRIC, Values
from bgbias.study import plan
from bgbias.study.params import Study

NUMBER = 11
TITLE = "Re-identification in front of random backgrounds, and of the photos' own"
ABOUT = "Re-identification: mAP and CMC where queries, gallery and cameras are given, and what other backgrounds cost."
AP = "average_precision"
CMC = ("cmc_1", "cmc_5", "cmc_10")
SINGLE_SHOT = tuple(f"single_shot_{name}" for name in CMC)
COLUMNS = (
    Column("mAP", words.interval("map", 1), "mAP [95 %]", best="map"),
    Column("CMC@1", words.interval("cmc_1", 1), "CMC@1 [95 %]", best="cmc_1"),
    Column("CMC@5", words.number("cmc_5", 1)),
    Column("CMC@10", words.number("cmc_10", 1)),
    Column("mAP, corrupted", words.interval("map_corrupted", 1), "mAP corrupted"),
    Column("CMC@1, corrupted", words.interval("cmc_1_corrupted", 1), "CMC@1 corrupted"),
    Column("Drop of mAP, %", words.interval("relative_drop", 1), "Drop, %"),
    *(Column(f"Single shot, CMC@{name.rpartition('_')[2]}", words.number(name, 1)) for name in SINGLE_SHOT),
    Column("Paper, mAP", words.published("map", 1), known=("published_map",)),
    Column("Paper, CMC@1", words.published("cmc_1", 1), known=("published_cmc_1",)),
)
LEGEND = (
    "In %. Matches by the query's own camera do not count. Corrupted: random backgrounds in query and",
    "gallery. Drop: of mAP. [95 %]: over persons and, from three on, training seeds.",
)
HEADLINE = {"map": "mAP", "cmc_1": "CMC@1"}
settings = protocol


def wanted(study: Study) -> bool:
    """Whether the grid's datasets say who is asked among whom."""
    return plan.someone_given(study)


def reads(study: Study) -> dict[str, Made]:
    """The values that results are means of, and which photos were left out."""
    return files_of(step("collect"), "all_queries", "mask_report")


def make(study: Study) -> pd.DataFrame:
    """The table of a study; see ``table``."""
    own = [*rows.MODEL, "seed", "setting", "condition", "draw", "image_id", "label"]
    columns = [*own, AP, AP_OTHERS, *CMC, *SINGLE_SHOT]
    queries = pd.read_parquet(reads(study)["all_queries"].path(study), columns=columns)
    return table(queries, published.read())


def caption(study: Study, table: pd.DataFrame, excluded: Mapping[str, int]) -> str:
    """The caption of a study's table; see ``told``."""
    return told(table, study.train.selection, excluded)


def table(queries: pd.DataFrame, known: pd.DataFrame | None = None) -> pd.DataFrame:
    """Table 11 from the values a query.

    Columns after the model's four names: ``seeds``, ``folds`` (if the grid has some), ``queries`` with somebody to find, of so
    many ``classes``; in percent ``map`` and ``cmc_1`` of photos as they are, with ``_leads``, and ``_corrupted`` of query and
    gallery in front of random backgrounds, and ``relative_drop`` of mAP, each with ``_low`` and ``_high``; ``cmc_5``,
    ``cmc_10`` and ``single_shot_cmc_*`` of photos as they are; and what a paper has, ``published_*`` as in Table 1. Raises
    UserError where a model lacks queries.
    """
    lines: list[dict[str, Any]] = []
    compared: dict[str, list[Values]] = {"map": [], "cmc_1": []}
    for model, own in models(queries):
        precision, first = _values(own, model, AP, AP_OTHERS), _values(own, model, CMC[0])
        row = rows.named(model) | rows.repetitions(own, model)
        found = np.isfinite(precision.columns[CLEAN][0])
        row |= {"queries": int(found.sum()), "classes": len(set(precision.classes[found]))}
        for name, values in (("map", precision), ("cmc_1", first)):
            compared[name].append(values)
            row |= rows.share(name, values.estimate([CLEAN]))
            row |= rows.share(f"{name}_corrupted", values.estimate([CORRUPTED]))
        drop = precision.estimate([CLEAN, CORRUPTED], uncertainty.relative_drop)
        row |= rows.interval("relative_drop", drop, 100)
        for name in (*CMC[1:], *SINGLE_SHOT):
            row[name] = 100 * _values(own, model, name).estimate([CLEAN]).value
        row |= comparison("map", row, known, model, AP, CLEAN) | comparison(
            "cmc_1", row, known, model, CMC[0], CLEAN
        )
        lines.append(row)
    leads = {f"{name}_leads": rows.leading(of_models, CLEAN) for name, of_models in compared.items()}
    return rows.without_single_folds(pd.DataFrame(lines).assign(**leads))


def _values(own: pd.DataFrame, model: rows.Model, value: str, others: str = "") -> Values:
    """One metric of a model's queries, clean and corrupted."""
    columns = ["image_id", "label", "seed", "draw", value, *filter(None, [others])]
    seen = own[own["setting"] == SYMMETRIC]
    parts = {name: seen.loc[seen["condition"] == name, columns] for name in (CLEAN, CORRUPTED)}
    return Values.of(model, parts, value, others, {n: int(p["draw"].nunique()) for n, p in parts.items()})


def told(table: pd.DataFrame, selection: str, excluded: Mapping[str, int]) -> str:
    """Two paragraphs: what was measured, on whom, and how to read each column."""
    return (
        f"{sentences.title(TITLE, table)} In percent.{sentences.selected(selection)}"
        f" {sentences.seeds(table).capitalize()}.{sentences.folds(table)}{sentences.exclusions(excluded, 'are no queries')}\n\n"
        "Queries and gallery are the dataset's own; a match by the query's own camera is no match, and a query without"
        " another match is not counted. mAP: precision over whole rankings. CMC@k: a match among the first k; single shot: in a"
        " gallery with one photo of each person, the mean over all such galleries. Corrupted: random backgrounds in query and"
        " gallery. Drop: of mAP from clean to corrupted, relative."
        f" {sentences.intervals(table, 'persons')} Those of CMC are of other persons as queries in the same gallery."
        f" {sentences.BOLD}"
        f"{sentences.paper(table)}"
    )
