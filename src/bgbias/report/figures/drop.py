"""What other backgrounds cost in MAP@R, with the 95 % intervals of Table 1. Good: clean and
corrupted close together, far to the right; bad: far apart.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

from bgbias.images import contact_sheet
from bgbias.report import names as wording
from bgbias.report import sources, style
from bgbias.study.cell import PLAIN

PLACE = 7
ROW, BETWEEN_LOSSES, HEADING, AROUND = 0.175, 0.06, 0.27, 0.88  # inches
IN_LEGEND = 3  # methods; more are told apart by their rows' names alone


def figure_drop(table: pd.DataFrame) -> style.Figure:
    """Two panels from Table 1 (``tables.retrieval``), a line a model, grouped by dataset and loss.

    Left, MAP@R from clean (open) to corrupted (filled), with the paper's numbers as small crosses where it
    has them; right, the relative drop with its 95 % interval.
    """
    # Papers' numbers that were found in another way than ours do not compare.
    published = ("published_clean", "published_corrupted")
    table = table.assign(**{c: table[c].where(table[f"{c}_differs"].isna()) for c in published})
    is_first = table[["dataset", "backbone"]].ne(table[["dataset", "backbone"]].shift()).any(axis=1)
    is_apart = is_first | table["loss"].ne(table["loss"].shift())
    ends = (ROW + BETWEEN_LOSSES * is_apart + HEADING * is_first).cumsum()
    places, depth = ends - ROW / 2, ends.iloc[-1] + BETWEEN_LOSSES
    plain = set(table.loc[table["method"] == PLAIN, ["dataset", "loss"]].itertuples(index=False, name=None))
    names = [
        wording.row(loss, method, below_plain=(dataset, loss) in plain)
        for dataset, loss, method in table[["dataset", "loss", "method"]].itertuples(index=False)
    ]
    with style.style():
        figure = style.blank(style.WIDTH, depth + AROUND, layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=(1.1, 0.9))
        for (_, row), y in zip(table.iterrows(), places, strict=True):
            _draw_model(left, right, row, y)
        left.set_yticks(places, names)
        for tick, method in zip(left.get_yticklabels(), table["method"], strict=True):
            tick.set_color(style.ink(method))
        # No grid lines through letters.
        box = {"fc": contact_sheet.PAPER, "ec": "none", "pad": 1.5}
        for (_, row), y in zip(
            table[is_first].iterrows(), places[is_first] - (ROW + HEADING) / 2, strict=True
        ):
            text = f"{wording.dataset(row['dataset'])} · {row['backbone']}"
            left.text(0, y, text, transform=left.get_yaxis_transform(), va="center", weight="bold", bbox=box)
        largest = np.nanmax(table[["clean", "published_clean"]].to_numpy())
        left.set(title="MAP@R, %", xlim=(0, 1.06 * largest))
        least = np.nanmin(table[["relative_drop", "relative_drop_low"]].to_numpy())
        right.set(title="Relative drop, %", xlim=(min(0, 1.1 * least), None))
        right.axvline(0, color=contact_sheet.MUTED, linewidth=0.6)
        for axes in (left, right):
            axes.set_ylim(depth, 0)
            axes.spines["left"].set_visible(False)
            axes.tick_params(axis="y", length=0)
            axes.grid(axis="x")
        right.set_yticks([])
        _draw_legend(figure, table)
    return figure


reads, draw = sources.make_figure_hooks(1, figure_drop).values()


def _draw_model(left: style.Axes, right: style.Axes, row: pd.Series, y: float) -> None:
    colour = style.colour(row["method"])
    filled: dict[str, Any] = {"markeredgecolor": "white", "markeredgewidth": 0.6}
    clean, corrupted, drop = row["clean"], row["corrupted"], row["relative_drop"]
    left.plot([clean, corrupted], [y, y], color=colour, linewidth=2.2, alpha=0.35, solid_capstyle="butt")
    left.plot(corrupted, y, "o", color=colour, markersize=5, **filled)
    left.plot(clean, y, "o", color=colour, markersize=4.4, markerfacecolor="white", markeredgewidth=1.2)
    for published in ("published_clean", "published_corrupted"):
        if not math.isnan(row[published]):
            left.plot(row[published], y, "x", color=contact_sheet.INK, markersize=3.4, markeredgewidth=0.9)
    errors = [[drop - row["relative_drop_low"]], [row["relative_drop_high"] - drop]]
    right.errorbar(drop, y, xerr=errors, fmt="none", ecolor=colour, elinewidth=1.3, capsize=3)
    right.plot(drop, y, "o", color=colour, markersize=4, **filled)


def _draw_legend(figure: style.Figure, table: pd.DataFrame) -> None:
    handles = [
        style.handle("clean", linestyle="", marker="o", markersize=4.4, markerfacecolor="white"),
        style.handle("corrupted", linestyle="", marker="o", markersize=5),
    ]
    if table[["published_clean", "published_corrupted"]].notna().any(axis=None):
        handles.append(
            style.handle("paper", color=contact_sheet.INK, linestyle="", marker="x", markersize=3.4)
        )
    methods = dict.fromkeys(table["method"])
    if len(methods) <= IN_LEGEND:
        thick: dict[str, Any] = {"linewidth": 4, "alpha": 0.8}
        handles += [style.handle(wording.method(m), color=style.colour(m), **thick) for m in methods]
    figure.legend(handles=handles, ncols=len(handles), loc="outside lower left", columnspacing=1.6)
