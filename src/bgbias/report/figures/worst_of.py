"""MAP@R with the worst of several backgrounds that a query is put on, in a clean gallery,
over how many are tried. Bars: the intervals of Table 6. Good: a high line that stays flat; bad: one
that falls.

After the backgrounds challenge's adversarial evaluation (Xiao et al. 2021).
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from bgbias.report import look, sources
from bgbias.report.figures import _panels
from bgbias.report.tables import crossing

PLACE = 9
wanted = crossing.wanted


def figure_worst_of(table: pd.DataFrame) -> look.Figure:
    """A panel for each dataset and backbone of Table 6 (``tables.crossing``)."""
    return _panels.figure(table, _panel, "backgrounds tried", "MAP@R with the worst, %")


reads, draw = sources.drawn_from(crossing.NUMBER, figure_worst_of)


def _panel(axes: look.Axes, rows: pd.DataFrame, losses: dict[str, str]) -> None:
    from matplotlib.ticker import NullLocator

    ticks: set[int] = set()
    for row in rows.to_dict("records"):
        columns = {k: f"worst_{k}" for k in crossing.TRIES} | {row["backgrounds"]: f"worst_{crossing.ALL}"}
        columns = {k: name for k, name in sorted(columns.items()) if k <= row["backgrounds"]}
        ticks.update(columns)
        y, low, high = (
            np.array([row[f"{name}{end}"] for name in columns.values()]) for end in ("", "_low", "_high")
        )
        _panels.bars(axes, list(columns), y, low, high, look.colour(row["method"]))
        axes.plot(list(columns), y, **_panels.mark(row, losses, 4), linewidth=1.2)
    axes.set_xscale("log")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(sorted(ticks), [str(tick) for tick in sorted(ticks)])
    axes.set_ylim(bottom=0)
    axes.grid(axis="y")
