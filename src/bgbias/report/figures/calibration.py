"""The drop over a background bias that is known by construction: without bias there is none to
find. Small dots: training seeds. Good: a flat line near 0; bad: one that rises as backgrounds tell
more.

On toy photos the bias is known: the drop must follow it, and a cure must not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from bgbias.images import contact_sheet
from bgbias.report import names, sources, style
from bgbias.report.figures import _panels
from bgbias.results.rows import MODEL, levels
from bgbias.study import plan
from bgbias.study.params import Study

PLACE = 8
DASHES: Any = (0, (3, 1.6))
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
    """Two panels from Table 1 (``tables.retrieval``) over the correlation of each dataset: the relative drop with its
    interval, and that of each training of ``seeds`` (``rows.tabulate_seeds``); clean and corrupted MAP@R. ``correlations``
    gives the correlation of every toy dataset in the table; others are left out.
    """
    rows = table[table["dataset"].isin(list(correlations)) & names.is_trained(table["method"])]
    rows = names.in_order(rows).assign(correlation=lambda own: own["dataset"].map(dict(correlations)))
    trainings = rows[[*MODEL, "correlation"]].merge(seeds, on=MODEL)

    def drops(axes: style.Axes, rows: pd.DataFrame, losses: dict[str, str]) -> None:
        for line, x, marks in _lines(rows, losses):
            y, low, high = (line[f"relative_drop{end}"] for end in ("", "_low", "_high"))
            _panels.bars(axes, x, y, low, high, marks["color"])
            axes.plot(x, y, **marks, linewidth=1.2)
        # A small dot a training, beside its mean.
        for line, x, marks in _lines(trainings, losses):
            axes.plot(x - 0.015, line["relative_drop"], ".", color=marks["color"], markersize=2.5, alpha=0.7)
        axes.axhline(0, color=contact_sheet.MUTED, linewidth=0.6)
        _finish(axes, rows)

    def levels(axes: style.Axes, rows: pd.DataFrame, losses: dict[str, str]) -> None:
        for line, x, marks in _lines(rows, losses):
            axes.plot(x, line["clean"], **marks | HOLLOW | {"markeredgecolor": marks["color"]})
            axes.plot(x, line["corrupted"], **marks, linestyle=DASHES, linewidth=1.2)
        axes.set_ylim(0, 1.06 * axes.dataLim.y1)
        _finish(axes, rows)

    panels = {"Relative drop of MAP@R, %": (rows, drops), "MAP@R, %: clean (open), corrupted": (rows, levels)}
    return _panels.figure(panels, "toy correlation")


def _lines(
    rows: pd.DataFrame, losses: dict[str, str]
) -> Iterator[tuple[pd.DataFrame, np.ndarray, dict[str, Any]]]:
    """Each model's rows, where they stand and how they are marked; each further loss is moved a little, so that intervals do not
    hide each other.
    """
    for (loss, _), line in rows.sort_values("correlation").groupby(["loss", "method"], sort=False):
        shift = 0.03 * list(losses).index(str(loss))
        yield line, line["correlation"].to_numpy() + shift, _panels.mark(line.iloc[0].to_dict(), losses, 5)


def _finish(axes: style.Axes, rows: pd.DataFrame) -> None:
    axes.set_xticks(sorted(rows["correlation"].unique()))
    axes.grid(axis="y")
