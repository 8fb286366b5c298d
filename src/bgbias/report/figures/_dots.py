"""Figures with a line for each model: a point for original photos (open) and one for other backgrounds (filled)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from bgbias.images.contact_sheet import INK, MUTED, RULE
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
    groups: Mapping[str, pd.DataFrame], columns: Mapping[str, tuple[str, ...]], colour_of: ColourOf
) -> style.Figure:
    """A row of panels for each of ``groups``, by its title; a line for each of its rows, called as their ``name`` says.

    ``columns``: by the name of an axis, those of its open and of its filled points, each with its interval (``_low``, ``_high``),
    and of what has none, as a paper's numbers, which are crosses.
    """
    depths = [ROW * (len(rows) + 1) for rows in groups.values()]
    every = pd.concat(groups.values())
    with style.style():
        height = sum(depths) + HEAD * len(groups) + FOOT
        drawn = style.blank(style.WIDTH, height)
        panels = drawn.subplots(len(groups), len(columns), squeeze=False, height_ratios=depths)
        for across, (axis, of_axis) in enumerate(columns.items()):
            limits = _find_limits(every, of_axis)
            for axes, (title, rows) in zip(panels[:, across], groups.items(), strict=True):
                for y, row in enumerate(rows.to_dict("records")):
                    _draw_row(axes, row, y, of_axis, colour_of)
                axes.set(title="" if across else title, xlim=limits, ylim=(len(rows) - 0.5, -0.5))
                axes.set_yticks([] if across else np.arange(len(rows)), [] if across else list(rows["name"]))
                if limits[0] < 0:
                    axes.axvline(0, color=RULE, linewidth=0.8, zorder=0)
            axes.set_xlabel(axis)
    return drawn


def _find_limits(rows: pd.DataFrame, columns: Sequence[str]) -> tuple[float, float]:
    """From the lowest to the highest end of an interval, with some room, and with 0."""
    reached = rows[[name for c in columns for name in (c, f"{c}_low", f"{c}_high") if name in rows]]
    low, high = (float(end(reached.to_numpy(float), initial=0)) for end in (np.nanmin, np.nanmax))
    room = ROOM * (high - low) or 1.0
    return low - room if low < 0 else 0.0, high + room


def _draw_row(
    axes: style.Axes, row: Mapping[Hashable, Any], y: int, columns: Sequence[str], colour_of: ColourOf
) -> None:
    own = [column for column in columns if f"{column}_low" in row]
    for number, column in enumerate(own):
        value, colour = row[column], colour_of(row, column)
        reach = [[value - row[f"{column}_low"]], [row[f"{column}_high"] - value]]
        axes.errorbar(
            value,
            y + APART * (2 * number - len(own) + 1),
            xerr=np.nan_to_num(reach),
            fmt="o",
            color=colour,
            markerfacecolor=colour if column == own[-1] else "none",
            markersize=4,
            elinewidth=0.8,
        )
    for column in columns:
        if column not in own and not np.isnan(row[column]):
            axes.plot(row[column], y, "x", color=INK, markersize=3.4, markeredgewidth=0.9)


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
    columns = {axis: ("clean_difference", "corrupted_difference")}

    def colour(row: Mapping[Hashable, Any], column: str) -> str:
        return style.PALETTE[1] if row[f"{column}_p_holm"] < SIGNIFICANT else MUTED

    return figure(groups, columns, colour)


def _is_compared(study: Study) -> bool:
    trained = plan.trained_models(study)
    return any(cell.method != PLAIN and replace(cell, method=PLAIN) in trained for cell in trained)


def figure_models(table: pd.DataFrame) -> style.Figure:
    """From Table 15 (``tables.models``), a line a model, the best one of each dataset on top."""
    by_dataset = table.assign(name=table["backbone"]).groupby("dataset", sort=False)
    groups = {names.dataset(str(name)): rows for name, rows in by_dataset}
    colours = {"clean": MUTED, "changed": style.PALETTE[1]}
    axis = "MAP@R, %: original queries (open), other backgrounds (filled)"
    return figure(groups, {axis: ("clean", "changed")}, lambda _row, column: colours[column])


def figure_drop(table: pd.DataFrame) -> style.Figure:
    """From Table 1, a line a model: its MAP@R, with the paper's numbers where it has them, and its relative drop."""
    # Papers' numbers that were found in another way than ours do not compare.
    published = ("published_clean", "published_corrupted")
    table = table.assign(**{c: table[c].where(table[f"{c}_differs"].isna()) for c in published})
    groups = {}
    for (dataset, backbone), rows in table.groupby(["dataset", "backbone"], sort=False):
        plain = set(rows.loc[rows["method"] == PLAIN, "loss"])
        called = [
            names.row(loss, method, below_plain=loss in plain)
            for loss, method in zip(rows["loss"], rows["method"], strict=True)
        ]
        groups[f"{names.dataset(str(dataset))} · {backbone}"] = rows.assign(name=called)
    levels = "MAP@R, %: clean (open), other backgrounds (filled)"
    levels += ", paper (cross)" if table[list(published)].notna().any(axis=None) else ""
    columns = {levels: ("clean", "corrupted", *published), "relative drop, %": ("relative_drop",)}
    return figure(groups, columns, lambda row, _column: style.colour(row["method"]))


MEMBERS: dict[str, dict[str, Any]] = {
    "change": {
        "__doc__": """What each method changes of plain training's MAP@R, on original photos (open) and on other
        backgrounds (filled), with the 95 % intervals of Table 1. Grey: not significant, or of too few
        classes to be tested. Good: filled points far to the right, and open ones not left of 0.""",
        "PLACE": 6,
        "wanted": _is_compared,
        **sources.make_figure_hooks(1, figure_change),
    },
    "drop": {
        "__doc__": """What other backgrounds cost in MAP@R, with the 95 % intervals of Table 1. Good: clean and corrupted
        close together, far to the right; bad: far apart.""",
        "PLACE": 7,
        **sources.make_figure_hooks(1, figure_drop),
    },
    "models": {
        "__doc__": """MAP@R of models as they come, from original queries (open) to those on other backgrounds
        (filled), with the 95 % intervals of Table 15. Good: far to the right, and close together.""",
        "PLACE": 8,
        "wanted": models.wanted,
        **sources.make_figure_hooks(models.NUMBER, figure_models),
    },
}
