"""What is lost where masks are worse and better: a third of the queries beside another, by how good
or how sure their masks are.

A mask that misses a part of its object takes it away with every other background: its loss counts
as one of background. docs/methods.md, section 13; percentages are 0..100.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from bgbias.engine import inputs
from bgbias.masks.policy import read_mask_table
from bgbias.report import sources
from bgbias.report.columns import NOTHING, Column, against_plain, interval
from bgbias.report.tables import decomposition
from bgbias.results import rows, uncertainty
from bgbias.results.decomposition import OF_QUERIES, PATH, STEPS, matched_values
from bgbias.results.thirds import in_thirds
from bgbias.study import plan
from bgbias.study.params import Study

NUMBER = 10
CAPTION = "mask_quality.j2"
# Columns of the table of masks, the first that says something: overlap with true masks, or how clear they are; earlier tables
# of results have the masker's confidence.
MEASURES = {"iou": "IoU", "clarity": "clarity", "confidence": "confidence"}
WORST, BEST = "worst", "best"
PARTS = {"drop": (PATH[0], PATH[-1])} | dict(zip(STEPS, pairwise(PATH), strict=True))


def _format_range(row: dict[str, Any]) -> str:
    if not isinstance(row["measure"], str):
        return NOTHING
    ends = [row[f"{third}_{end}"] for third in (WORST, BEST) for end in ("from", "to")]
    # Most masks are very sure: with three digits all thirds would end at 1.
    digits = ".5g" if row["measure"] == "confidence" else ".2f"
    least, below, above, most = (f"{end:{digits}}" for end in ends)
    return f"{MEASURES[row['measure']]} {least} to {below}, {above} to {most}"


COLUMNS = (
    Column("Thirds of masks", _format_range),
    Column("Drop, lower third", interval("drop_worst", 1), "Drop, lower [95 %]"),
    Column("Drop, upper third", interval("drop_best", 1), "Drop, upper [95 %]"),
    Column("Lower minus upper", against_plain("drop_more", 1), "Difference [95 %]"),
    *(
        Column(f"{head}, {end}", interval(f"{name}_{third}", 1), known=(f"{name}_{third}",))
        for name, head in zip(STEPS, ("Pasting", "Own background", "Class's backgrounds"), strict=True)
        for third, end in ((WORST, "lower"), (BEST, "upper"))
    ),
)
HEADLINE = {"drop_best": "drop of the upper third of masks"}


def wanted(study: Study) -> bool:
    """Whether the grid splits the drop, and masks are found by a masker, which may be wrong."""
    return decomposition.wanted(study) and any(
        study.masker_of(dataset).module.PREDICTS for dataset in plan.datasets(study)
    )


def reads(study: Study) -> sources.Sources:
    read = sources.list_collected("all_queries", "mask_report")
    return read | {f"masks {d}": inputs.masks(study, d)["mask_table"] for d in plan.datasets(study)}


def make(study: Study) -> pd.DataFrame:
    files = reads(study)
    masks = {d: read_mask_table(files[f"masks {d}"].path(study)) for d in plan.datasets(study)}
    return table(sources.queries(study, OF_QUERIES), masks)


def table(queries: pd.DataFrame, masks: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Table 10 from the values a query, and each dataset's table of masks.

    ``queries`` and ``classes`` are of all thirds; ``measure``: a name of ``MEASURES``; of the third with the worst and that
    with the best masks, the measure's ends ``worst_from``, ``worst_to``, ``best_from``, ``best_to``; points lost of MAP@R,
    query and gallery alike, ``drop_*``, the same of each step in ``decomposition.STEPS``, and ``drop_more``, the first drop
    minus the second. NaN where masks do not differ enough, or where there are fewer than ``thirds.FEWEST`` queries.
    """
    lines = []
    for model, model_rows in sources.models(queries):
        values = matched_values(model_rows, model, rows.SYMMETRIC, PATH)
        row = rows.heading(model_rows, values, "queries")
        lines.append(
            row | _measure_thirds(values, masks[model[0]].set_index("image_id").reindex(values.queries))
        )
    return rows.tabulate_models(lines, within=())


def _measure_thirds(values: rows.Values, masks: pd.DataFrame) -> dict[str, Any]:
    """What a row says of its thirds; ``masks``: a row a query of ``values``, in their order."""
    measure, third = None, np.full(len(masks), -1)
    for name in ("clarity", "iou"):  # the overlap with true masks where it is known
        if masks[name].notna().all() and (thirds := in_thirds(masks[name])) is not None:
            measure, third = name, thirds
    among = {WORST: third == 0, BEST: third == 2}
    row: dict[str, Any] = {"measure": measure}
    for name, chosen in among.items():
        ends = masks.loc[chosen, measure].agg(["min", "max"]) if measure else (np.nan, np.nan)
        row |= dict(zip((f"{name}_from", f"{name}_to"), map(float, ends), strict=True))
        for part, path in PARTS.items():
            row |= rows.interval(f"{part}_{name}", _estimate_fall(values, path, [chosen]), 100)
    return row | rows.tested("drop_more", _estimate_fall(values, PARTS["drop"], list(among.values())), 100)


def _estimate_fall(
    values: rows.Values, path: tuple[str, str], among: Sequence[np.ndarray]
) -> uncertainty.Estimate:
    """By how much the mean over some queries falls on the way; minus the same of others if ``among`` names two groups.

    A mean over some is the mean of their values over all queries by the share that they are.
    """
    if not all(chosen.any() for chosen in among):
        return uncertainty.UNKNOWN
    columns, of_others = [], []
    for chosen in among:
        columns += [np.where(chosen, values.columns[name], 0.0) for name in path]
        columns.append(np.broadcast_to(chosen, columns[-1].shape).astype(float))
        of_others += [values.of_others[name] * chosen.mean() for name in path]
        of_others.append(np.zeros_like(columns[-1]))

    def lost(*means: np.ndarray) -> np.ndarray:
        first, *second = [
            (before - after) / share
            for before, after, share in zip(means[::3], means[1::3], means[2::3], strict=True)
        ]
        return first - second[0] if second else first

    return uncertainty.estimate(columns, values.classes, lost, of_others)
