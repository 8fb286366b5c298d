"""One-shot segmentation as a figure: what each model shares two photos of a class by, and the object that GrabCut makes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bgbias.images import contact_sheet
from bgbias.report import names
from bgbias.report.figures import _look as figures
from bgbias.report.figures.attribution import FOOT, GAP, HEAD, MARGIN, SIDE, number, overlay, scale


@dataclass(frozen=True)
class Segmentation:
    """A test photo and its support, uint8 [S, S, 3]; the true object, bool [S, S]; and for each method the map in 0..1, the mask
    that GrabCut made of it (bool), both [S, S], and its IoU with the truth.
    """

    photo: np.ndarray
    support: np.ndarray
    truth: np.ndarray
    maps: Mapping[str, np.ndarray]
    masks: Mapping[str, np.ndarray]
    ious: Mapping[str, float]


def figure_segmentation(examples: Sequence[Segmentation]) -> Figure:
    """A row an episode: the support, the photo with the outline of its object, then a map and a mask for each method.

    Beside the mask the photo is dimmed; the true outline is drawn into every picture of the photo.
    """
    methods = list(examples[0].maps)
    columns = 2 + 2 * len(methods)
    width = 2 * MARGIN + columns * SIDE + (columns - 1) * GAP
    height = HEAD + len(examples) * (SIDE + GAP) + FOOT
    with figures.style():
        figure = figures.blank(width, height)
        for line, example in enumerate(examples):
            top = HEAD + line * (SIDE + GAP)
            row = [figures.panel(figure, MARGIN + c * (SIDE + GAP), top, SIDE, SIDE) for c in range(columns)]
            figures.photo(row[0], example.support)
            figures.photo(row[1], example.photo)
            _outline(row[1], example.truth)
            for place, method in enumerate(methods):
                seen, cut = row[2 + 2 * place : 4 + 2 * place]
                figures.photo(seen, overlay(example.photo, example.maps[method]))
                figures.photo(cut, _lit(example.photo, example.masks[method]))
                number(cut, example.ious[method], figures.colour(method))
                for axes in (seen, cut):
                    _outline(axes, example.truth)
            if line == 0:
                _heads(row, methods)
        scale(figure, width, height - FOOT + 0.03, "number: intersection over union      attention: none")
    return figure


def _heads(row: Sequence[Axes], methods: Sequence[str]) -> None:
    words = [("Support", contact_sheet.INK), ("Photo", contact_sheet.INK)]
    for method in methods:
        words += [(names.method(method), figures.colour(method)), ("its GrabCut", figures.colour(method))]
    for axes, (word, colour) in zip(row, words, strict=True):
        axes.set_title(word, loc="center", pad=4, color=colour)


def _lit(photo: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """The photo with all but the mask dimmed."""
    return photo / 255 * np.where(mask, 1.0, 0.3)[..., None]


def _outline(axes: Axes, truth: np.ndarray) -> None:
    if truth.any() and not truth.all():
        axes.contour(truth.astype(float), levels=[0.5], colors=["white"], linewidths=[0.9])
