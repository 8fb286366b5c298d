"""The share of decisions by shape over alpha, how much negatives of no class count in pretraining.
Small dots: seeds; large ones: their means with the intervals of Table 14. On the dashed line
neither shape nor texture is followed more, where classes are of equal size. A network that lost
both stands there, too: Table 14 has shape beside chance.

After Figure 6a of Ge et al. (2021).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from bgbias.errors import UserError
from bgbias.images import contact_sheet
from bgbias.report import look, sources
from bgbias.report.figures import _panels
from bgbias.report.tables import shape_texture
from bgbias.report.tables.shape_texture import NONE, SEED
from bgbias.study.cell import UNTRAINED
from bgbias.study.params import Study

PLACE = 10


def wanted(study: Study) -> bool:
    """Whether there are pretrainings that differ in alpha, and pictures that tell shape from texture."""
    return shape_texture.wanted(study) and any(_series(pd.DataFrame(shape_texture.learned(study).values())))


def figure_shape_share(table: pd.DataFrame) -> look.Figure:
    """A panel for each dataset, pretraining and kind of negatives of Table 14 (``tables.shape_texture``) that has several alphas;
    0 is the same pretraining without negatives. Raises UserError if there is none.
    """
    # Beside the network's own features a random layer on them says next to nothing.
    rows = table[table["method"] != UNTRAINED]
    panels = [
        own.assign(backbone=f"{alike}, {kind}")
        for _, of_dataset in rows.groupby("dataset", sort=False)
        for alike, kind, own in _series(of_dataset)
    ]
    if not panels:
        raise UserError(
            "The figure of shape over alpha needs pretrainings that differ in alpha alone; choose grid: shape_texture in"
            " params.yaml."
        )
    return _panels.figure(pd.concat(panels), _panel, "alpha", "decisions by shape, %")


reads, draw = sources.drawn_from(shape_texture.NUMBER, figure_shape_share)


def _series(rows: pd.DataFrame) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """Of what differs in negatives alone, and by kind of negatives, the rows of several alphas; without negatives it is 0."""
    for alike, own in rows[rows["alpha"].notna()].groupby("alike", sort=False) if len(rows) else ():
        for kind in own.loc[own["negatives"] != NONE, "negatives"].unique():
            line = own[own["negatives"].isin([NONE, kind])].sort_values(
                "negatives", key=lambda of: of != NONE, kind="stable"
            )
            line = line.drop_duplicates([name for name in ("loss", "method", "alpha") if name in line])
            if line["alpha"].nunique() > 1:
                yield str(alike), str(kind), line


def _panel(axes: look.Axes, rows: pd.DataFrame, losses: dict[str, str]) -> None:
    from matplotlib.ticker import FixedLocator

    seeds = [name for name in rows if str(name).startswith(SEED)]
    for _, line in rows.sort_values("alpha").groupby(["loss", "method"], sort=False):
        marks = _panels.mark(line.iloc[0].to_dict(), losses, 6)
        small = marks | {"markersize": 3, "alpha": 0.45, "linestyle": ""}
        for seed in seeds:
            axes.plot(line["alpha"], line[seed], **small)
        y, low, high = (line[f"shape_share{end}"] for end in ("", "_low", "_high"))
        _panels.bars(axes, line["alpha"], y, low, high, marks["color"])
        axes.plot(line["alpha"], y, **marks, linewidth=1.2, zorder=3)
    axes.axhline(50, color=contact_sheet.MUTED, linewidth=0.6, linestyle=(0, (3, 2)), zorder=0)
    axes.xaxis.set_major_locator(FixedLocator(np.unique(rows["alpha"]).tolist()))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_ylim(0, 100)
    axes.grid(axis="y")
