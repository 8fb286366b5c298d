"""What a method gains on corrupted photos against what it costs on clean ones: a comparison at a glance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from bgbias.images import contact_sheet
from bgbias.report import look, names
from bgbias.report.figures import _seeds as each
from bgbias.report.figures import _shown as shown
from bgbias.results.rows import MODEL
from bgbias.study import plan
from bgbias.study.params import Study

PLACE = 6
ABOUT = (
    "MAP@R in front of other backgrounds over MAP@R in front of the photos' own: small dots are training seeds, large ones"
    " their means with the intervals of Table 1. Further up and to the right is better; on the dashed line nothing is lost."
)
reads = each.reads
MARKERS = ("o", "D", "s", "^", "v", "P", "X")
ACROSS, GAP, LEFT, TOP, FOOT, BETWEEN, RIGHT = 3, 0.42, 0.5, 0.32, 0.42, 0.55, 1.75
BESIDE = 0.5  # room for a mark of the legend, and around it


def wanted(study: Study) -> bool:
    """Whether there are methods to compare."""
    return len({cell.method for cell in plan.trained(study)}) > 1


def draw(study: Study) -> look.Figure:
    """Every model of the grid, corrupted over clean."""
    return figure_pareto(shown.read_table1(study), each.read(study))


def figure_pareto(table: pd.DataFrame, seeds: pd.DataFrame) -> look.Figure:
    """A panel for each dataset and backbone of Table 1 (``tables.retrieval``): MAP@R corrupted over clean, in percent.

    ``seeds``: that of each training (``rows.of_each_seed``). Colours are methods, marks are losses; both axes have the same
    scale.
    """
    panels = list(table.groupby(["dataset", "backbone"], sort=False))
    across = min(ACROSS, len(panels))
    losses = dict(zip(table["loss"].unique(), MARKERS * len(table), strict=False))
    methods = list(dict.fromkeys(table["method"]))
    said = [*map(names.method, methods), *map(names.loss, losses)]
    right = max(RIGHT, BESIDE + max(map(look.text_width, said)))
    side = (look.WIDTH - LEFT - right - GAP * (across - 1)) / max(across, 2)
    down = -(-len(panels) // across)
    entries = len(methods) + len(losses) + 1
    width = LEFT + across * side + GAP * (across - 1) + right
    height = max(TOP + down * side + (down - 1) * BETWEEN + FOOT, 0.4 + 0.15 * entries)
    with look.style():
        figure = look.blank(width, height)
        for number, (name, rows) in enumerate(panels):
            row, column = divmod(number, across)
            left, top = LEFT + column * (side + GAP), TOP + row * (side + BETWEEN)
            axes = look.panel(figure, left, top, side, side)
            _panel(axes, rows, seeds.merge(rows[MODEL], on=MODEL), losses)
            axes.set_title(" · ".join([names.dataset(str(name[0])), str(name[1])]))
            axes.set_xlabel("clean MAP@R, %")
            if not column:
                axes.set_ylabel("corrupted MAP@R, %")
        _legend(figure, methods, losses)
    return figure


def _panel(axes: look.Axes, rows: pd.DataFrame, seeds: pd.DataFrame, losses: dict[str, str]) -> None:
    from matplotlib.ticker import MaxNLocator

    for row in seeds.to_dict("records"):
        axes.plot(row["clean"], row["corrupted"], **_mark(row, losses, 3), alpha=0.45, linestyle="")
    for row in rows.to_dict("records"):
        colour = look.colour(row["method"])
        spans = [
            [[row[name] - row[f"{name}_low"]], [row[f"{name}_high"] - row[name]]]
            for name in ("clean", "corrupted")
        ]
        place: dict[str, Any] = {"fmt": "none", "ecolor": colour, "elinewidth": 0.7, "alpha": 0.6}
        axes.errorbar(row["clean"], row["corrupted"], xerr=spans[0], yerr=spans[1], **place)
        axes.plot(row["clean"], row["corrupted"], **_mark(row, losses, 6.5), linestyle="", zorder=3)
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


def _mark(row: Mapping[Any, Any], losses: dict[str, str], size: float) -> dict[str, Any]:
    return {
        "marker": losses[row["loss"]],
        "color": look.colour(row["method"]),
        "markersize": size,
        "markeredgecolor": "white",
        "markeredgewidth": 0.5,
    }


def _legend(figure: look.Figure, methods: list[str], losses: dict[str, str]) -> None:
    from matplotlib.lines import Line2D

    alone: dict[str, Any] = {"linestyle": "", "markersize": 5}
    handles = [
        Line2D([], [], marker="o", color=look.colour(m), label=names.method(m), **alone) for m in methods
    ]
    if len(losses) > 1:
        grey = {"color": contact_sheet.MUTED} | alone
        handles += [Line2D([], [], marker=m, label=names.loss(loss), **grey) for loss, m in losses.items()]
    figure.legend(handles=handles, loc="upper right", bbox_to_anchor=(0.995, 0.985))
