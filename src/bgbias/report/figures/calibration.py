"""The drop over a background bias that is known by construction: without bias there is none to
find. Small dots: training seeds. Good: a flat line near 0; bad: one that rises as backgrounds tell
more.

On toy photos the bias is known: the drop must follow it, and a cure must not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from bgbias.images import contact_sheet
from bgbias.report import names, sources, style
from bgbias.report.figures import _panels
from bgbias.results.rows import MODEL, levels
from bgbias.study import plan
from bgbias.study.params import Study

PLACE = 8
HEIGHT = 2.75
DASHES: Any = (0, (3, 1.6))
# As in the figure of the drop: open is clean, filled corrupted.
HOLLOW: dict[str, Any] = {"markerfacecolor": "white", "linewidth": 1.2}


def wanted(study: Study) -> bool:
    """Whether there are toy datasets to compare, and trained models, whose drops it shows."""
    return bool(plan.trained_models(study)) and len(settings(study)["correlations"]) > 1


def settings(study: Study) -> dict[str, Any]:
    """How biased each toy dataset's test photos are."""
    toys = [name for name in plan.datasets(study) if study.datasets[name].kind == "toy"]
    return {"correlations": {name: float(study.dataset(name).params().test_correlation) for name in toys}}


def reads(_study: Study) -> sources.Sources:
    """Table 1, and the results that it is made of, with those of each training."""
    return sources.list_tables(1) | sources.list_collected("results")


def draw(study: Study) -> style.Figure:
    return figure_calibration(sources.table(study, 1), settings(study)["correlations"], levels(study))


def figure_calibration(
    table: pd.DataFrame, correlations: Mapping[str, float], seeds: pd.DataFrame
) -> style.Figure:
    """Two panels from Table 1 (``tables.retrieval``) over the correlation of each dataset.

    Left, the relative drop with its interval, and that of each training of ``seeds`` (``rows.tabulate_seeds``); right, clean and
    corrupted MAP@R. A loss run at one correlation only is a point without a line. ``correlations`` gives the correlation of
    every toy dataset in the table; others are left out.
    """
    from matplotlib.ticker import MaxNLocator

    rows = table[table["dataset"].isin(list(correlations)) & names.is_trained(table["method"])].copy()
    rows["correlation"] = rows["dataset"].map(dict(correlations)).astype(float)
    counts = rows.groupby("loss", sort=False)["correlation"].nunique()
    losses = counts.sort_values(ascending=False, kind="stable").index.tolist()
    with style.style():
        figure = style.blank(style.WIDTH, HEIGHT)
        left, right = figure.subplots(1, 2, width_ratios=(5, 4))
        for marker, loss in zip(_panels.MARKERS * len(losses), losses, strict=False):
            of_loss = rows[rows["loss"] == loss].sort_values("correlation")
            for method, line in of_loss.groupby("method", sort=False):
                _draw_model(left, right, line, seeds, str(method), marker)
        low, high = left.get_ylim()
        left.set(title="Relative drop of MAP@R, %", ylim=(min(low, -2), max(high, 2)))
        right.set(title="MAP@R, %", ylim=(0, 1.06 * right.dataLim.y1))
        for axes in (left, right):
            axes.set_xticks(sorted(rows["correlation"].unique()))
            axes.set_xlabel("toy correlation")
            axes.yaxis.set_major_locator(MaxNLocator(5))
            axes.grid(axis="y")
        left.axhline(0, color=contact_sheet.MUTED, linewidth=0.6)
        methods = dict.fromkeys(names.in_order(rows)["method"])
        handles = [style.handle(names.method(method), color=style.colour(method)) for method in methods]
        handles += [
            style.handle("clean", marker="o", linestyle="-", markersize=4, **HOLLOW),
            style.handle("corrupted", marker="o", linestyle=DASHES, markersize=4),
        ]
        if len(losses) > 1:
            marks = zip(_panels.MARKERS * len(losses), losses, strict=False)
            handles += [
                style.handle(names.loss(loss), marker=m, linestyle="", markersize=4) for m, loss in marks
            ]
        figure.legend(handles=handles, loc="outside right upper", handlelength=2.4)
    return figure


def _draw_model(
    left: style.Axes, right: style.Axes, line: pd.DataFrame, seeds: pd.DataFrame, method: str, marker: str
) -> None:
    """A method with one loss; each further loss is moved a little, so that intervals do not hide each other."""
    shift, colour = 0.03 * _panels.MARKERS.index(marker), style.colour(method)
    x, y = line["correlation"].to_numpy() + shift, line["relative_drop"]
    low, high = line["relative_drop_low"], line["relative_drop_high"]
    is_line = len(line) > 1
    if is_line:
        left.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)
        left.plot(x, y, color=colour)
    left.errorbar(x, y, yerr=[y - low, high - y], fmt="none", ecolor=colour, elinewidth=1, capsize=3)
    left.plot(x, y, marker, color=colour, markersize=4, markeredgecolor="white", markeredgewidth=0.7)
    # A small dot a training, beside its mean.
    trainings = line[[*MODEL, "correlation"]].merge(seeds, on=MODEL)
    dots = trainings["correlation"].to_numpy() + shift - 0.015
    left.plot(dots, trainings["relative_drop"], ".", color=colour, markersize=2.5, alpha=0.7)
    points: dict[str, Any] = {"color": colour, "marker": marker, "markersize": 4}
    right.plot(x, line["clean"], linestyle="-" if is_line else "", **points, **HOLLOW)
    right.plot(x, line["corrupted"], linestyle=DASHES if is_line else "", **points)
