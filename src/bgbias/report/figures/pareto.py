"""MAP@R on other backgrounds over MAP@R on the photos' own: small dots are
training seeds, pale marks their means with the intervals of Table 1. Higher is better, and nearer
to the dashed line less is lost; further right is better only if it is not by backgrounds that
photos are found there.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from bgbias.images import contact_sheet
from bgbias.report import look, sources
from bgbias.report.figures import _panels
from bgbias.report.figures import _shown as shown
from bgbias.results.rows import MODEL, levels
from bgbias.study import plan
from bgbias.study.params import Study

PLACE = 6
reads = shown.seeds


def wanted(study: Study) -> bool:
    """Whether there are methods to compare."""
    return len({cell.method for cell in plan.trained(study)}) > 1


def draw(study: Study) -> look.Figure:
    return figure_pareto(sources.table(study, 1), levels(study))


def figure_pareto(table: pd.DataFrame, seeds: pd.DataFrame) -> look.Figure:
    """A panel for each dataset and backbone of Table 1 (``tables.retrieval``): MAP@R corrupted over clean, in percent.

    ``seeds``: that of each training (``rows.of_each_seed``). Colours are methods, marks are losses; both axes have the same
    scale.
    """
    panel = partial(_panel, of_seeds=seeds)
    return _panels.figure(table, panel, "clean MAP@R, %", "corrupted MAP@R, %")


def _panel(axes: look.Axes, rows: pd.DataFrame, losses: dict[str, str], of_seeds: pd.DataFrame) -> None:
    from matplotlib.ticker import MaxNLocator

    seeds = of_seeds.merge(rows[MODEL], on=MODEL)
    for row in seeds.to_dict("records"):
        axes.plot(row["clean"], row["corrupted"], **_panels.mark(row, losses, 3), linestyle="", zorder=4)
    for row in rows.to_dict("records"):
        colour = look.colour(row["method"])
        spans = [
            [[row[name] - row[f"{name}_low"]], [row[f"{name}_high"] - row[name]]]
            for name in ("clean", "corrupted")
        ]
        place: dict[str, Any] = {"fmt": "none", "ecolor": colour, "elinewidth": 0.7, "alpha": 0.6}
        axes.errorbar(row["clean"], row["corrupted"], xerr=spans[0], yerr=spans[1], **place)
        axes.plot(row["clean"], row["corrupted"], **_panels.pale(row, losses, 8), linestyle="", zorder=3)
    ends_too = [f"{name}{end}" for name in ("clean", "corrupted") for end in ("", "_low", "_high")]
    points = np.concatenate(
        [rows[ends_too].to_numpy().ravel(), seeds[["clean", "corrupted"]].to_numpy().ravel()]
    )
    low, high = np.nanmin(points), np.nanmax(points)
    room = 0.07 * (high - low) or 1.0
    ends = max(low - room, 0), high + room
    axes.set(xlim=ends, ylim=ends)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(5, integer=True))
    axes.plot(ends, ends, color=contact_sheet.MUTED, linewidth=0.6, linestyle=(0, (3, 2)), zorder=0)
    axes.grid()
