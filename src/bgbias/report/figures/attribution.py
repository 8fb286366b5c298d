"""Figure 2: where models look, as attribution maps beside the photo and its mask (METHODS section 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bgbias.images import contact_sheet
from bgbias.report import names
from bgbias.report.figures import _look as figures

SIDE, GAP, MARGIN, HEAD, FOOT = 1.3, 0.08, 0.06, 0.26, 0.2
MAP = "inferno"


@dataclass(frozen=True)
class Attribution:
    """A photo uint8 [H, W, 3] as the model saw it, its soft mask [h, w] (uint8, or float in 0..1), and for
    each method an attribution map [h, w] in 0..1 and its score (NaN: none).
    """

    photo: np.ndarray
    mask: np.ndarray
    maps: Mapping[str, np.ndarray]
    scores: Mapping[str, float]


def figure_attribution(examples: Sequence[Attribution]) -> Figure:
    """A row a photo: the photo, the object's outline, then one map a method with its attribution score.

    Bright pixels move the embedding most; the outline of the object is drawn into every map.
    """
    methods = list(examples[0].maps)
    columns = 2 + len(methods)
    width = 2 * MARGIN + columns * SIDE + (columns - 1) * GAP
    height = HEAD + len(examples) * (SIDE + GAP) + FOOT
    with figures.style():
        figure = figures.blank(width, height)
        for line, example in enumerate(examples):
            top = HEAD + line * (SIDE + GAP)
            row = [figures.panel(figure, MARGIN + c * (SIDE + GAP), top, SIDE, SIDE) for c in range(columns)]
            figures.photo(row[0], example.photo)
            figures.photo(row[1], _lit(example))
            _outline(row[1], example, "white", 1.2)
            for axes, method in zip(row[2:], methods, strict=True):
                figures.photo(axes, overlay(example.photo, example.maps[method]))
                _outline(axes, example, "white", 0.7)
                number(axes, example.scores[method], figures.colour(method))
            if line == 0:
                _heads(row, methods)
        scale(figure, width, height - FOOT + 0.03, "number: attribution score      attribution: none")
    return figure


def _heads(row: Sequence[Axes], methods: Sequence[str]) -> None:
    words = ["Photo", "Object", *map(names.method, methods)]
    colours = [contact_sheet.INK, contact_sheet.INK, *map(figures.colour, methods)]
    for axes, word, colour in zip(row, words, colours, strict=True):
        axes.set_title(word, loc="center", pad=4, color=colour)


def overlay(photo: np.ndarray, attribution: np.ndarray) -> np.ndarray:
    """The map in colour over the photo in dim grey, float [H, W, 3] in 0..1: the brighter, the more
    colour.
    """
    grey = photo.astype(np.float64) @ [0.299, 0.587, 0.114] / 255
    values = np.clip(_like(np.asarray(attribution, dtype=np.float64), photo), 0, 1)
    coloured = matplotlib.colormaps[MAP](values)[..., :3]
    # Some of the map's black where nothing is attributed: zero is not the same as no map.
    weight = 0.55 + 0.45 * values[..., None]
    return np.clip((1 - weight) * grey[..., None] + weight * coloured, 0, 1)


def _lit(example: Attribution) -> np.ndarray:
    """The photo with everything around the object dimmed."""
    alpha = _alpha(example)[..., None]
    return np.clip(example.photo / 255 * (0.3 + 0.7 * alpha), 0, 1)


def _alpha(example: Attribution) -> np.ndarray:
    mask = np.asarray(example.mask, dtype=np.float64)
    return _like(mask / 255 if example.mask.dtype == np.uint8 else mask, example.photo)


def _like(values: np.ndarray, photo: np.ndarray) -> np.ndarray:
    """A map [h, w] at the photo's size, by nearest pixels: maps are shown as they are."""
    rows, columns = (np.arange(n) * m // n for n, m in zip(photo.shape[:2], values.shape, strict=True))
    return values[np.ix_(rows, columns)]


def _outline(axes: Axes, example: Attribution, colour: str, line: float) -> None:
    alpha = figures.square(_alpha(example))
    # A mask that is empty or full has no outline.
    if alpha.min() < 0.5 <= alpha.max():
        axes.contour(alpha, levels=[0.5], colors=[colour], linewidths=[line])


def number(axes: Axes, score: float, colour: str) -> None:
    """A score in the corner of a picture."""
    text = "no score" if np.isnan(score) else f"{score:.2f}".replace("-", "−")
    axes.text(
        0.05,
        0.05,
        text,
        transform=axes.transAxes,
        ha="left",
        va="bottom",
        fontsize=7,
        weight="bold",
        color="white",
        bbox={"boxstyle": "round,pad=0.28", "fc": colour, "ec": "none", "alpha": 0.92},
    )


def scale(figure: Figure, width: float, top: float, words: str) -> None:
    """What the colours mean, below the maps: ``words``, which end with what black means, and the scale up to the most."""
    length, most = 1.0, 0.3
    axes = figures.panel(figure, width - MARGIN - most - length, top, length, 0.09)
    axes.imshow(np.linspace(0, 1, 256)[None], cmap=MAP, aspect="auto", extent=(0, 1, 0, 1))
    axes.set_axis_off()
    look: dict[str, Any] = {
        "transform": axes.transAxes,
        "va": "center",
        "fontsize": 6.5,
        "color": contact_sheet.MUTED,
    }
    axes.text(1.05, 0.45, "most", ha="left", **look)
    axes.text(-0.05, 0.45, words, ha="right", **look)
