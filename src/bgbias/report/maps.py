"""Maps of where a model looks, as all figures show them: their colours, a score in their corner, and the scale below."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from bgbias.images import contact_sheet
from bgbias.report import look

if TYPE_CHECKING:
    from bgbias.attribution.explanation import Explanation

GAP, MARGIN, HEAD, FOOT = 0.08, 0.06, 0.26, 0.2
SIDE, EXPLAINED = 1.3, 1.7  # in sheets, and where a few photos are explained
MAP = "inferno"


def sheet(
    heads: Sequence[tuple[str, str]],
    rows: int,
    words: str,
    side: float = SIDE,
    margin: float = MARGIN,
) -> tuple[look.Figure, list[list[look.Axes]]]:
    """A figure with rows of square panels below heads (a word and its colour), and the panels of each row; ``words`` as in
    ``scale``.
    """
    columns, step = len(heads), side + GAP
    width, height = 2 * margin + columns * step - GAP, HEAD + rows * step + FOOT
    figure = look.blank(width, height)
    panels = [
        [look.panel(figure, margin + c * step, HEAD + r * step, side, side) for c in range(columns)]
        for r in range(rows)
    ]
    for axes, (word, colour) in zip(panels[0], heads, strict=True):
        axes.set_title(word, loc="center", pad=4, color=colour)
    scale(figure, width, height - FOOT + 0.03, words)
    return figure, panels


def outline(axes: look.Axes, mask: np.ndarray, line: float) -> None:
    """The object's outline, of its mask [S, S] in 0..1; one that is empty or full has none."""
    if mask.min() < 0.5 <= mask.max():
        axes.contour(mask, levels=[0.5], colors=["white"], linewidths=[line])


def overlay(photo: np.ndarray, attribution: np.ndarray) -> np.ndarray:
    """The map in colour over the photo in dim grey, float [H, W, 3] in 0..1: the brighter, the more colour."""
    import matplotlib

    grey = photo.astype(np.float64) @ [0.299, 0.587, 0.114] / 255
    values = np.clip(at_size(np.asarray(attribution, dtype=np.float64), photo), 0, 1)
    coloured = matplotlib.colormaps[MAP](values)[..., :3]
    # Some of the map's black where nothing is attributed: zero is not the same as no map.
    weight = 0.55 + 0.45 * values[..., None]
    return np.clip((1 - weight) * grey[..., None] + weight * coloured, 0, 1)


def at_size(values: np.ndarray, photo: np.ndarray) -> np.ndarray:
    """A map [h, w] at the photo's size, by nearest pixels: maps are shown as they are."""
    rows, columns = (np.arange(n) * m // n for n, m in zip(photo.shape[:2], values.shape, strict=True))
    return values[np.ix_(rows, columns)]


def number(axes: look.Axes, score: float, colour: str) -> None:
    """A score in the corner of a picture."""
    text = "no score" if np.isnan(score) else f"{score:z.2f}".replace("-", "−")
    box = {"boxstyle": "round,pad=0.28", "fc": colour, "ec": "none", "alpha": 0.92}
    look.tag(axes, 0.05, 0.05, text, box, ha="left", va="bottom", fontsize=7, weight="bold", color="white")


def scale(figure: look.Figure, width: float, top: float, words: str) -> None:
    """What the colours mean, below the maps: ``words``, which end with what black means, and the scale up to the most."""
    length, most = 1.0, 0.3
    axes = look.panel(figure, width - MARGIN - most - length, top, length, 0.09)
    axes.imshow(np.linspace(0, 1, 256)[None], cmap=MAP, aspect="auto", extent=(0, 1, 0, 1))
    axes.set_axis_off()
    look.tag(axes, 1.05, 0.45, "most", ha="left", va="center", fontsize=6.5, color=contact_sheet.MUTED)
    look.tag(axes, -0.05, 0.45, words, ha="right", va="center", fontsize=6.5, color=contact_sheet.MUTED)


def figure_explanation(found: Explanation) -> look.Figure:
    """A column a photo. Below the photo stands its map: bright where it is like the anchor (or, if the photos are
    compared as different, unlike the other); each distance is that to the first photo.
    """
    columns = len(found.photos)
    # Two photos alone would leave no room for the words below.
    margin = MARGIN + max(0.0, (3 - columns) * EXPLAINED / 4)
    heads = [
        found.roles[0],
        *(f"{r}, {d:.2f} away" for r, d in zip(found.roles[1:], found.distances, strict=True)),
    ]
    words = f"what counts for their {'similarity' if found.same else 'difference'}: nothing"
    with look.style():
        figure, (upper, lower) = sheet(
            [(head, contact_sheet.INK) for head in heads], 2, words, EXPLAINED, margin
        )
        for above, below, photo, attention in zip(upper, lower, found.photos, found.maps, strict=True):
            look.photo(above, photo)
            look.photo(below, overlay(photo, attention))
            if not attention.any():
                below.text(0.5, 0.5, "no place counts", transform=below.transAxes, ha="center", color="white")
    return figure
