"""Maps of where a model looks, as all figures show them: their colours, a score in their corner, and the scale below."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bgbias.images import contact_sheet
from bgbias.report import style
from bgbias.report.columns import format_number

if TYPE_CHECKING:
    from bgbias.attribution.explanation import Explanation

GAP, MARGIN, HEAD, FOOT = 0.08, 0.06, 0.26, 0.2
SIDE, EXPLAINED = 1.3, 1.7  # in sheets, and where a few photos are explained
MAP = "inferno"


@dataclass(frozen=True)
class Picture:
    """A picture [H, W, 3] of a sheet; on it, where they are given, the outline of a mask [S, S] in 0..1, a score in its corner in
    a method's ``colour`` (NaN: none), and a note in its middle.
    """

    image: np.ndarray
    mask: np.ndarray | None = None
    line: float = 0.7
    score: float | None = None
    colour: str = contact_sheet.INK
    note: str = ""


def sheet(
    heads: Sequence[tuple[str, str]],
    rows: Sequence[Sequence[Picture]],
    words: str,
    side: float = SIDE,
    margin: float = MARGIN,
) -> style.Figure:
    """A figure with rows of square pictures below heads (a word and its colour). Below them stands the scale of maps: ``words``,
    which end with what black means, and the colours up to the most.
    """
    columns, step = len(heads), side + GAP
    width, height = 2 * margin + columns * step - GAP, HEAD + len(rows) * step + FOOT
    with style.style():
        figure = style.blank(width, height)
        for down, row in enumerate(rows):
            for across, picture in enumerate(row):
                axes = style.panel(figure, margin + across * step, HEAD + down * step, side, side)
                _draw(axes, picture)
                if not down:
                    word, colour = heads[across]
                    axes.set_title(word, loc="center", pad=4, color=colour)
        length, most = 1.0, 0.3
        axes = style.panel(figure, width - MARGIN - most - length, height - FOOT + 0.03, length, 0.09)
        axes.imshow(np.linspace(0, 1, 256)[None], cmap=MAP, aspect="auto", extent=(0, 1, 0, 1))
        axes.set_axis_off()
        small = {"va": "center", "fontsize": 6.5, "color": contact_sheet.MUTED}
        style.tag(axes, 1.05, 0.45, "most", ha="left", **small)
        style.tag(axes, -0.05, 0.45, words, ha="right", **small)
    return figure


def _draw(axes: style.Axes, picture: Picture) -> None:
    style.photo(axes, picture.image)
    # A mask that is empty or full has no outline.
    if picture.mask is not None and picture.mask.min() < 0.5 <= picture.mask.max():
        axes.contour(picture.mask, levels=[0.5], colors=["white"], linewidths=[picture.line])
    if picture.score is not None:
        text = "no score" if np.isnan(picture.score) else format_number(picture.score, 2)
        box = {"boxstyle": "round,pad=0.28", "fc": picture.colour, "ec": "none", "alpha": 0.92}
        white = {"fontsize": 7, "weight": "bold", "color": "white"}
        style.tag(axes, 0.05, 0.05, text, box, ha="left", va="bottom", **white)
    style.tag(axes, 0.5, 0.5, picture.note, ha="center", color="white")


def overlay(photo: np.ndarray, attribution: np.ndarray) -> np.ndarray:
    """The map in colour over the photo in dim grey, float [H, W, 3] in 0..1: the brighter, the more colour."""
    import matplotlib

    grey = photo.astype(np.float64) @ [0.299, 0.587, 0.114] / 255
    values = np.clip(enlarge(np.asarray(attribution, dtype=np.float64), photo), 0, 1)
    coloured = matplotlib.colormaps[MAP](values)[..., :3]
    # Some of the map's black where nothing is attributed: zero is not the same as no map.
    weight = 0.55 + 0.45 * values[..., None]
    return np.clip((1 - weight) * grey[..., None] + weight * coloured, 0, 1)


def enlarge(values: np.ndarray, photo: np.ndarray) -> np.ndarray:
    """A map [h, w] at the photo's size, by nearest pixels: maps are shown as they are."""
    rows, columns = (np.arange(n) * m // n for n, m in zip(photo.shape[:2], values.shape, strict=True))
    return values[np.ix_(rows, columns)]


def figure_explanation(explanation: Explanation) -> style.Figure:
    """A column a photo. Below the photo stands its map: bright where it is like the anchor (or, if the photos are
    compared as different, unlike the other); each distance is that to the first photo.
    """
    columns = len(explanation.photos)
    # Two photos alone would leave no room for the words below.
    margin = MARGIN + max(0.0, (3 - columns) * EXPLAINED / 4)
    away = ["", *(f", {distance:.2f} away" for distance in explanation.distances)]
    heads = [(role + more, contact_sheet.INK) for role, more in zip(explanation.roles, away, strict=True)]
    words = f"what counts for their {'similarity' if explanation.same else 'difference'}: nothing"
    maps = [
        Picture(overlay(photo, attention), note="" if attention.any() else "no place counts")
        for photo, attention in zip(explanation.photos, explanation.maps, strict=True)
    ]
    return sheet(heads, [[Picture(photo) for photo in explanation.photos], maps], words, EXPLAINED, margin)
