"""Figures with a panel for each dataset and backbone, in which colours are methods and marks are losses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd

from bgbias.report import look, names
from bgbias.study.cell import NO_LOSS
from bgbias.study.methods import ON_REPLACED

MARKERS = ("o", "D", "s", "^", "v", "P", "X")
ACROSS = 3
# Inches: the height of a legend's lines, and that of titles and labels above and below a panel or beside it.
LINE, AROUND = 0.15, 0.45

# Draws the rows of one dataset and backbone into axes, each loss with its mark.
Panel = Callable[[Any, pd.DataFrame, dict[str, str]], None]


def figure(table: pd.DataFrame, panel: Panel, across_axis: str, up_axis: str) -> look.Figure:
    """A figure of a table's rows with a legend beside it; the axes are called as they say."""
    panels = list(table.groupby(["dataset", "backbone"], sort=False))
    across = min(ACROSS, len(panels))
    losses = dict(zip(table["loss"].unique(), MARKERS * len(table), strict=False))
    methods = list(dict.fromkeys(table["method"]))
    # Models that nobody trained have no mark, and that of one loss alone needs no words.
    explained = {loss: sign for loss, sign in losses.items() if loss != NO_LOSS}
    explained = explained if len(explained) > 1 else {}
    alone: dict[str, Any] = {"linestyle": "", "markersize": 5}
    handles = [look.handle(names.method(m), marker="o", **alone, **_face(m)) for m in methods]
    handles += [look.handle(names.loss(loss), marker=sign, **alone) for loss, sign in explained.items()]
    down = -(-len(panels) // across)
    beside = LINE * (len(handles) + 4)
    with look.style():
        drawn = look.blank(look.WIDTH, beside, layout="constrained")
        legend = drawn.legend(handles=handles, loc="outside right upper")
        drawn.draw_without_rendering()
        taken = legend.get_window_extent().width / drawn.dpi + AROUND
        side = max(look.WIDTH - taken, across) / max(across, 2)  # inches, one at least however long names are
        if len(panels) == 1:  # many points have the room that their legend takes
            side = max(side, min(beside - AROUND, look.WIDTH - taken))
        drawn.set_size_inches(across * side + taken, max(down * (side + AROUND), beside))
        for number, (name, rows) in enumerate(panels):
            axes = drawn.add_subplot(down, across, number + 1, box_aspect=1, anchor="NW")
            panel(axes, rows, losses)
            axes.set_title(" · ".join([names.dataset(str(name[0])), str(name[1])]))
            axes.set_xlabel(across_axis)
            if number % across == 0:
                axes.set_ylabel(up_axis)
    return drawn


def mark(row: Mapping[Any, Any], losses: dict[str, str], size: float) -> dict[str, Any]:
    """How the point of a model is drawn."""
    return {"marker": losses[row["loss"]], "markersize": size} | _face(row["method"])


def bars(axes: look.Axes, x: Any, y: Any, low: Any, high: Any, colour: str) -> None:
    """Intervals of points, thin and pale: they are many."""
    axes.errorbar(x, y, [y - low, high - y], fmt="none", ecolor=colour, elinewidth=0.7, alpha=0.6)


def _face(method: str) -> dict[str, Any]:
    """A method's colour; on replaced backgrounds it has a rim of BGAugment's, since a darker shade alone is hard to tell."""
    alone = method.removesuffix(ON_REPLACED)
    if alone != method:
        return {
            "color": look.colour(alone),
            "markeredgecolor": look.colour(names.BGAUGMENT),
            "markeredgewidth": 1.3,
        }
    return {"color": look.colour(method), "markeredgecolor": "white", "markeredgewidth": 0.5}
