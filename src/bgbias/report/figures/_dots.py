"""Figures with a line for each model: a point for original photos (open) and one for other backgrounds (filled)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from bgbias.images.contact_sheet import MUTED
from bgbias.report import names, sources, style
from bgbias.report.tables import models
from bgbias.results.uncertainty import SIGNIFICANT
from bgbias.study import plan
from bgbias.study.cell import PLAIN
from bgbias.study.params import Study

ROW, HEAD, FOOT = 0.19, 0.35, 0.5  # inches
APART = 0.12  # of a line: both points from its middle
ROOM = 0.06  # of the axis, beside the longest intervals

# The colour of a point, by its row's values and its column.
ColourOf = Callable[[Mapping[Hashable, Any], str], str]


def figure(
    groups: Mapping[str, pd.DataFrame], columns: tuple[str, str], axis: str, colour_of: ColourOf
) -> style.Figure:
    """A panel for each of ``groups``, by its title; a line for each of its rows, called as their ``name`` says.

    ``columns``: those of the open and of the filled points, each with its interval (``_low``, ``_high``).
    """
    depths = [ROW * (len(rows) + 1) for rows in groups.values()]
    ends = [f"{column}{end}" for column in columns for end in ("", "_low", "_high")]
    reached = np.concatenate([rows[ends].to_numpy(float).ravel() for rows in groups.values()])
    low, high = (float(end(reached, initial=0)) for end in (np.nanmin, np.nanmax))
    room = ROOM * (high - low) or 1.0
    low, high = low - room if low < 0 else 0.0, high + room
    with style.style():
        drawn = style.blank(style.WIDTH, sum(depths) + HEAD * len(groups) + FOOT, layout="constrained")
        panels = drawn.subplots(len(groups), 1, squeeze=False, height_ratios=depths)[:, 0]
        for axes, (title, rows) in zip(panels, groups.items(), strict=True):
            for y, row in enumerate(rows.to_dict("records")):
                for column, shift in zip(columns, (-APART, APART), strict=True):
                    value, colour = row[column], colour_of(row, column)
                    reach = [[value - row[f"{column}_low"]], [row[f"{column}_high"] - value]]
                    axes.errorbar(
                        value,
                        y + shift,
                        xerr=np.nan_to_num(reach),
                        fmt="o",
                        color=colour,
                        markerfacecolor=colour if column == columns[-1] else "none",
                        markersize=4,
                        elinewidth=0.8,
                    )
            axes.set(title=title, xlim=(low, high), ylim=(len(rows) - 0.5, -0.5))
            axes.set_yticks(np.arange(len(rows)), list(rows["name"]))
            if low < 0:
                axes.axvline(0, color=style.RULE, linewidth=0.8, zorder=0)
        axes.set_xlabel(axis)
    return drawn


def figure_change(table: pd.DataFrame) -> style.Figure:
    """From Table 1 (``tables.retrieval``), a panel for each dataset and backbone, a line for each method and loss."""
    methods = table[names.is_trained(table["method"]) & (table["method"] != PLAIN)]
    has_difference = methods["corrupted_difference"].notna()
    rows = methods[has_difference] if has_difference.any() else methods
    called = rows["method"].map(names.method)
    if rows["loss"].nunique() > 1:
        called = called + ", " + rows["loss"].map(names.loss)
    panels = rows.assign(name=called).groupby(["dataset", "backbone"], sort=False)
    groups = {f"{names.dataset(str(dataset))} · {backbone}": part for (dataset, backbone), part in panels}
    axis = "change of MAP@R, points: original photos (open), other backgrounds (filled)"

    def colour(row: Mapping[Hashable, Any], column: str) -> str:
        return style.PALETTE[1] if row[f"{column}_p_holm"] < SIGNIFICANT else MUTED

    return figure(groups, ("clean_difference", "corrupted_difference"), axis, colour)


def _is_compared(study: Study) -> bool:
    trained = plan.trained_models(study)
    return any(cell.method != PLAIN and replace(cell, method=PLAIN) in trained for cell in trained)


def figure_models(table: pd.DataFrame) -> style.Figure:
    """From Table 15 (``tables.models``), a line a model, the best one of each dataset on top."""
    by_dataset = table.assign(name=table["backbone"]).groupby("dataset", sort=False)
    groups = {names.dataset(str(name)): rows for name, rows in by_dataset}
    colours = {"clean": MUTED, "changed": style.PALETTE[1]}
    axis = "MAP@R, %: original queries (open), other backgrounds (filled)"
    return figure(groups, ("clean", "changed"), axis, lambda _row, column: colours[column])


MEMBERS: dict[str, dict[str, Any]] = {
    "change": {
        "__doc__": """What each method changes of plain training's MAP@R, on original photos (open) and on other
        backgrounds (filled), with the 95 % intervals of Table 1. Grey: not significant, or of too few
        classes to be tested. Good: filled points far to the right, and open ones not left of 0.""",
        "PLACE": 6,
        "wanted": _is_compared,
        **sources.make_figure_hooks(1, figure_change),
    },
    "models": {
        "__doc__": """MAP@R of models as they come, from original queries (open) to those on other backgrounds
        (filled), with the 95 % intervals of Table 15. Good: far to the right, and close together.""",
        "PLACE": 8,
        "wanted": models.wanted,
        **sources.make_figure_hooks(models.NUMBER, figure_models),
    },
}
