"""MAP@R of models as they come, from original queries (open) to those on other backgrounds
(filled), with the 95 % intervals of Table 15. Good: far to the right, and close together.
"""

from __future__ import annotations

import pandas as pd

from bgbias.images.contact_sheet import MUTED
from bgbias.report import look, names, sources
from bgbias.report.figures import _dots
from bgbias.report.tables import models

PLACE = 8
AXIS = "MAP@R, %: original queries (open), other backgrounds (filled)"
wanted = models.wanted


def figure_models(table: pd.DataFrame) -> look.Figure:
    """From Table 15 (``tables.models``), a line a model, the best one of each dataset on top."""
    by_dataset = table.assign(name=table["backbone"]).groupby("dataset", sort=False)
    groups = {names.dataset(str(name)): rows for name, rows in by_dataset}
    colours = {"clean": MUTED, "changed": look.PALETTE[1]}
    return _dots.figure(groups, ("clean", "changed"), AXIS, lambda _row, column: colours[column])


reads, draw = sources.drawn_from(models.NUMBER, figure_models)
