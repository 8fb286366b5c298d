"""Figures with a panel for each dataset and backbone, in which colours are methods and marks are losses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from bgbias.images import contact_sheet
from bgbias.report import names, sources, style
from bgbias.report.tables import crossing, shape_texture
from bgbias.report.tables.shape_texture import NONE, SEED
from bgbias.study.cell import NO_LOSS, UNTRAINED
from bgbias.study.methods import ON_REPLACED
from bgbias.study.params import Study

MARKERS = ("o", "D", "s", "^", "v", "P", "X")
ACROSS = 3
# Inches: the height of a legend's lines, and that of titles and labels above and below a panel or beside it.
LINE, AROUND = 0.15, 0.45

# Draws the rows of a panel into axes, each loss with its mark.
Panel = Callable[[Any, pd.DataFrame, dict[str, str]], None]


def by_network(table: pd.DataFrame, panel: Panel) -> dict[str, tuple[pd.DataFrame, Panel]]:
    """The panels of a table's rows: of each dataset and backbone, by its title."""
    groups = table.groupby(["dataset", "backbone"], sort=False)
    return {f"{names.dataset(str(of))} · {network}": (rows, panel) for (of, network), rows in groups}


def figure(
    panels: Mapping[str, tuple[pd.DataFrame, Panel]], across_axis: str, up_axis: str = ""
) -> style.Figure:
    """A figure of panels by their titles with a legend beside it; the axes are called as they say."""
    table = pd.concat([rows for rows, _ in panels.values()])
    across = min(ACROSS, len(panels))
    losses = dict(zip(table["loss"].unique(), MARKERS * len(table), strict=False))
    methods = list(dict.fromkeys(table["method"]))
    # Models that nobody trained have no mark, and that of one loss alone needs no words.
    explained = {loss: sign for loss, sign in losses.items() if loss != NO_LOSS}
    explained = explained if len(explained) > 1 else {}
    alone: dict[str, Any] = {"linestyle": "", "markersize": 5}
    handles = [style.handle(names.method(m), marker="o", **alone, **_face(m)) for m in methods]
    handles += [style.handle(names.loss(loss), marker=sign, **alone) for loss, sign in explained.items()]
    down = -(-len(panels) // across)
    height = LINE * (len(handles) + 4)
    with style.style():
        drawn = style.blank(style.WIDTH, height)
        legend = drawn.legend(handles=handles, loc="outside right upper")
        drawn.draw_without_rendering()
        width = legend.get_window_extent().width / drawn.dpi + AROUND
        # Inches, one at least however long names are.
        side = max(style.WIDTH - width, across) / max(across, 2)
        if len(panels) == 1:  # many points have the room that their legend takes
            side = max(side, min(height - AROUND, style.WIDTH - width))
        drawn.set_size_inches(across * side + width, max(down * (side + AROUND), height))
        for number, (title, (rows, panel)) in enumerate(panels.items()):
            axes = drawn.add_subplot(down, across, number + 1, box_aspect=1, anchor="NW")
            panel(axes, rows, losses)
            axes.set(title=title, xlabel=across_axis)
            if number % across == 0:
                axes.set_ylabel(up_axis)
    return drawn


def mark(row: Mapping[Any, Any], losses: dict[str, str], size: float) -> dict[str, Any]:
    """How the point of a model is drawn."""
    return {"marker": losses[row["loss"]], "markersize": size} | _face(row["method"])


def bars(axes: style.Axes, x: Any, y: Any, low: Any, high: Any, colour: str) -> None:
    """Intervals of points, thin and pale: they are many."""
    axes.errorbar(x, y, [y - low, high - y], fmt="none", ecolor=colour, elinewidth=0.7, alpha=0.6)


def _face(method: str) -> dict[str, Any]:
    """A method's colour; on replaced backgrounds it has a rim of BGAugment's, since a darker shade alone is hard to tell."""
    alone = method.removesuffix(ON_REPLACED)
    if alone != method:
        return {
            "color": style.colour(alone),
            "markeredgecolor": style.colour(names.BGAUGMENT),
            "markeredgewidth": 1.3,
        }
    return {"color": style.colour(method), "markeredgecolor": "white", "markeredgewidth": 0.5}


def figure_worst_of(table: pd.DataFrame) -> style.Figure:
    """A panel for each dataset and backbone of Table 6 (``tables.crossing``)."""
    return figure(by_network(table, _worst_of), "backgrounds tried", "MAP@R with the worst, %")


def _worst_of(axes: style.Axes, rows: pd.DataFrame, losses: dict[str, str]) -> None:
    from matplotlib.ticker import NullLocator

    ticks: set[int] = set()
    for row in rows.to_dict("records"):
        columns = {k: f"worst_{k}" for k in crossing.TRIES} | {row["backgrounds"]: f"worst_{crossing.ALL}"}
        columns = {k: name for k, name in sorted(columns.items()) if k <= row["backgrounds"]}
        ticks.update(columns)
        y, low, high = (
            np.array([row[f"{name}{end}"] for name in columns.values()]) for end in ("", "_low", "_high")
        )
        bars(axes, list(columns), y, low, high, style.colour(row["method"]))
        axes.plot(list(columns), y, **mark(row, losses, 4), linewidth=1.2)
    axes.set_xscale("log")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(sorted(ticks), [str(tick) for tick in sorted(ticks)])
    axes.set_ylim(bottom=0)
    axes.grid(axis="y")


def figure_shape_share(table: pd.DataFrame) -> style.Figure:
    """A panel for each dataset, pretraining and kind of negatives of Table 14 (``tables.shape_texture``) that has several alphas;
    0 is the same pretraining without negatives.
    """
    # Beside the network's own features a random layer on them says next to nothing.
    rows = table[table["method"] != UNTRAINED]
    panels = [
        part.assign(backbone=f"{alike}, {kind}")
        for _, of_dataset in rows.groupby("dataset", sort=False)
        for alike, kind, part in _series(of_dataset)
    ]
    return figure(by_network(pd.concat(panels), _shape_share), "alpha", "decisions by shape, %")


def _series(rows: pd.DataFrame) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """Of what differs in negatives alone, and by kind of negatives, the rows of several alphas; without negatives it is 0."""
    for alike, part in rows[rows["alpha"].notna()].groupby("alike", sort=False) if len(rows) else ():
        for kind in part.loc[part["negatives"] != NONE, "negatives"].unique():
            line = part[part["negatives"].isin([NONE, kind])].sort_values(
                "negatives", key=lambda kinds: kinds != NONE, kind="stable"
            )
            line = line.drop_duplicates([name for name in ("loss", "method", "alpha") if name in line])
            if line["alpha"].nunique() > 1:
                yield str(alike), str(kind), line


def _shape_share(axes: style.Axes, rows: pd.DataFrame, losses: dict[str, str]) -> None:
    from matplotlib.ticker import FixedLocator

    seeds = [name for name in rows if str(name).startswith(SEED)]
    for _, line in rows.sort_values("alpha").groupby(["loss", "method"], sort=False):
        marks = mark(line.iloc[0].to_dict(), losses, 6)
        small = marks | {"markersize": 3, "alpha": 0.45, "linestyle": ""}
        for seed in seeds:
            axes.plot(line["alpha"], line[seed], **small)
        y, low, high = (line[f"shape_share{end}"] for end in ("", "_low", "_high"))
        bars(axes, line["alpha"], y, low, high, marks["color"])
        axes.plot(line["alpha"], y, **marks, linewidth=1.2, zorder=3)
    axes.axhline(50, color=contact_sheet.MUTED, linewidth=0.6, linestyle=(0, (3, 2)), zorder=0)
    axes.xaxis.set_major_locator(FixedLocator(np.unique(rows["alpha"]).tolist()))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_ylim(0, 100)
    axes.grid(axis="y")


def _has_alphas(study: Study) -> bool:
    """Whether there are pretrainings that differ in alpha, and pictures that tell shape from texture."""
    return shape_texture.wanted(study) and any(
        _series(pd.DataFrame(shape_texture.pretraining_columns(study).values()))
    )


MEMBERS: dict[str, dict[str, Any]] = {
    "worst_of": {
        "__doc__": """MAP@R with the worst of several backgrounds that a query is put on, in a clean gallery,
        over how many are tried. Bars: the intervals of Table 6. Good: a high line that stays flat; bad: one
        that falls.

        After the backgrounds challenge's adversarial evaluation (Xiao et al. 2021).""",
        "PLACE": 9,
        "wanted": crossing.wanted,
        **sources.make_figure_hooks(crossing.NUMBER, figure_worst_of),
    },
    "shape_share": {
        "__doc__": """The share of decisions by shape over alpha, how much negatives of no class count in pretraining.
        Small dots: seeds; large ones: their means with the intervals of Table 14. On the dashed line
        neither shape nor texture is followed more, where classes are of equal size. A network that lost
        both stands there, too: Table 14 has shape beside chance.

        After Figure 6a of Ge et al. (2021).""",
        "PLACE": 10,
        "wanted": _has_alphas,
        **sources.make_figure_hooks(shape_texture.NUMBER, figure_shape_share),
    },
}
