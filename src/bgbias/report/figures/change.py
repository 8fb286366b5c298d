"""What each method changes of plain training's MAP@R, on original photos (open) and on other
backgrounds (filled), with the 95 % intervals of Table 1. Grey: not significant, or of too few
classes to be tested. Good: filled points far to the right, and open ones not left of 0.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from bgbias.images.contact_sheet import MUTED
from bgbias.report import look, names, sources
from bgbias.report.figures import _dots
from bgbias.results.uncertainty import SIGNIFICANT
from bgbias.study import plan
from bgbias.study.cell import PLAIN
from bgbias.study.params import Study

PLACE = 6
CHANGES = ("clean_difference", "corrupted_difference")
AXIS = "change of MAP@R, points: original photos (open), other backgrounds (filled)"


def wanted(study: Study) -> bool:
    """Whether a method can be compared with plain training."""
    trained = plan.trained(study)
    return any(cell.method != PLAIN and replace(cell, method=PLAIN) in trained for cell in trained)


def figure_change(table: pd.DataFrame) -> look.Figure:
    """From Table 1 (``tables.retrieval``), a panel for each dataset and backbone, a line for each method and loss."""
    methods = table[names.trained(table["method"]) & (table["method"] != PLAIN)]
    known = methods[methods[CHANGES[-1]].notna()]
    rows = methods if known.empty else known
    called = rows["method"].map(names.method)
    if rows["loss"].nunique() > 1:
        called = called + ", " + rows["loss"].map(names.loss)
    panels = rows.assign(name=called).groupby(["dataset", "backbone"], sort=False)
    groups = {f"{names.dataset(str(dataset))} · {backbone}": own for (dataset, backbone), own in panels}
    return _dots.figure(groups, CHANGES, AXIS, _colour)


reads, draw = sources.drawn_from(1, figure_change)


def _colour(row: Mapping[Hashable, Any], column: str) -> str:
    return look.PALETTE[1] if row[f"{column}_p_holm"] < SIGNIFICANT else MUTED
