"""Figures with a line for each model: a point for original photos (open) and one for other backgrounds (filled)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from bgbias.report import look

ROW, HEAD, FOOT = 0.19, 0.35, 0.5  # inches
APART = 0.12  # of a line: both points from its middle
ROOM = 0.06  # of the axis, beside the longest intervals

# The colour of a point, by its row's values and its column.
ColourOf = Callable[[Mapping[Hashable, Any], str], str]


def figure(
    groups: Mapping[str, pd.DataFrame], columns: tuple[str, str], axis: str, colour_of: ColourOf
) -> look.Figure:
    """A panel for each of ``groups``, by its title; a line for each of its rows, called as their ``name`` says.

    ``columns``: those of the open and of the filled points, each with its interval (``_low``, ``_high``).
    """
    depths = [ROW * (len(rows) + 1) for rows in groups.values()]
    ends = [f"{column}{end}" for column in columns for end in ("", "_low", "_high")]
    reached = np.concatenate([rows[ends].to_numpy(float).ravel() for rows in groups.values()])
    low, high = (float(end(reached, initial=0)) for end in (np.nanmin, np.nanmax))
    room = ROOM * (high - low) or 1.0
    low, high = low - room if low < 0 else 0.0, high + room
    with look.style():
        drawn = look.blank(look.WIDTH, sum(depths) + HEAD * len(groups) + FOOT, layout="constrained")
        panels = drawn.subplots(len(groups), 1, squeeze=False, height_ratios=depths)[:, 0]
        for axes, (title, rows) in zip(panels, groups.items(), strict=True):
            for place, row in enumerate(rows.to_dict("records")):
                for column, shift in zip(columns, (-APART, APART), strict=True):
                    value, colour = row[column], colour_of(row, column)
                    reach = [[value - row[f"{column}_low"]], [row[f"{column}_high"] - value]]
                    axes.errorbar(
                        value,
                        place + shift,
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
                axes.axvline(0, color=look.RULE, linewidth=0.8, zorder=0)
        axes.set_xlabel(axis)
    return drawn
