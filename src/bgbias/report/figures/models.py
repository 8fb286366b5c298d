"""MAP@R of models as they come, from original queries (open) to those on other backgrounds
(filled), with the 95 % intervals of Table 15. Good: far to the right, and close together.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from bgbias.images.contact_sheet import MUTED
from bgbias.report import look, names, sources
from bgbias.report.tables import models
from bgbias.study.params import Study

PLACE = 8
ROW, HEAD, FOOT = 0.19, 0.35, 0.5  # inches
wanted = models.wanted


def reads(_study: Study) -> sources.Sources:
    return sources.printed(models.NUMBER)


def draw(study: Study) -> look.Figure:
    return figure_models(sources.table(study, models.NUMBER))


def figure_models(table: pd.DataFrame) -> look.Figure:
    """From Table 15 (``tables.models``), a line a model, the best one of each dataset on top."""
    groups = [(str(name), own) for name, own in table.groupby("dataset", sort=False)]
    depths = [ROW * (len(own) + 1) for _, own in groups]
    with look.style():
        height = sum(depths) + HEAD * len(groups) + FOOT
        figure = look.blank(look.WIDTH, height, layout="constrained")
        panels = figure.subplots(len(groups), 1, squeeze=False, height_ratios=depths)[:, 0]
        ends = ["clean_low", "clean_high", "changed_low", "changed_high", "clean", "changed"]
        largest = float(np.nanmax(table[ends].to_numpy()))
        for axes, (dataset, own) in zip(panels, groups, strict=True):
            places = np.arange(len(own))
            for level, filled, shift in (("clean", False, -0.12), ("changed", True, 0.12)):
                reach = np.abs(own[[f"{level}_low", f"{level}_high"]].to_numpy().T - own[level].to_numpy())
                colour = look.PALETTE[1] if filled else MUTED
                axes.errorbar(
                    own[level],
                    places + shift,
                    xerr=np.nan_to_num(reach),
                    fmt="o",
                    color=colour,
                    markerfacecolor=colour if filled else "none",
                    markersize=4,
                    elinewidth=0.8,
                )
            axes.set(title=names.dataset(dataset), xlim=(0, 1.06 * largest), ylim=(len(own) - 0.5, -0.5))
            axes.set_yticks(places, list(own["backbone"]))
        axes.set_xlabel("MAP@R, %: original queries (open), other backgrounds (filled)")
    return figure
