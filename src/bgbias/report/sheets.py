"""Sheets of pictures as all figures show them, with outlines and numbers on these, and maps of where a model looks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np

from bgbias.images.contact_sheet import INK, MUTED, RULE
from bgbias.report import style
from bgbias.report.columns import format_number

if TYPE_CHECKING:
    from bgbias.attribution.explanation import Explanation

SIDE, EXPLAINED = 1.35, 1.75  # inches of a picture's room in sheets, and where a few photos are explained
HEAD, LABEL, CAPTION, FOOT, GAP = 0.24, 0.3, 0.12, 0.36, 0.03  # inches
MAP = "inferno"


@dataclass(frozen=True)
class Outline:
    """The line around a mask [H, W] in 0..1, at one half, closed at its borders; an empty mask has none."""

    mask: np.ndarray
    width: float = 0.7
    colour: str = "white"
    dashes: Any = "solid"


@dataclass(frozen=True)
class Picture:
    """A picture [H, W, 3] of a sheet in its ``frame``, a colour and a width; on it, where they are given, outlines, a ``tag`` in
    its corner on a ``colour``, and a ``note`` in its middle; below it a ``caption``.
    """

    image: np.ndarray
    outlines: tuple[Outline, ...] = ()
    tag: str = ""
    colour: str = INK
    note: str = ""
    caption: str = ""
    frame: tuple[str, float] = (RULE, 0.6)


def format_score(score: float) -> str:
    """A score as a tag has it; NaN: there is none."""
    return "no score" if np.isnan(score) else format_number(score, 2)


def sheet(
    rows: Sequence[Sequence[Picture]],
    heads: Sequence[tuple[str, str]] = (),
    labels: Sequence[tuple[str, str]] = (),
    scale: str = "",
    legend: str = "",
    side: float = SIDE,
) -> style.Figure:
    """A figure with rows of pictures below ``heads`` and behind ``labels``, each a word and its colour. Below them stand, where
    they are given, the ``scale`` of maps, called as it says, and a ``legend``.
    """
    from matplotlib.cm import ScalarMappable

    across = max(map(len, rows))
    depth = side + CAPTION * any(picture.caption for row in rows for picture in row)
    below = FOOT * (bool(scale) + bool(legend))
    with style.style():
        # Lines of words are as long as a page is wide.
        width = max(across * side + LABEL * bool(labels), style.WIDTH * bool(legend))
        figure = style.blank(width, len(rows) * depth + HEAD * bool(heads) + below)
        figure.set_layout_engine("constrained", w_pad=GAP, h_pad=GAP, wspace=0, hspace=0)
        panels = figure.subplots(len(rows), across, squeeze=False)
        for axes, (word, colour) in zip(panels[0], heads, strict=bool(heads)):
            axes.set_title(word, loc="center", pad=4, color=colour)
        for axes, (word, colour) in zip(panels[:, 0], labels, strict=bool(labels)):
            axes.set_ylabel(word, color=colour, weight="bold")
        for row, of_row in zip(rows, panels, strict=True):
            for picture, axes in zip_longest(row, of_row):
                if picture is None:
                    axes.set_axis_off()
                else:
                    _draw(axes, picture)
        if scale:
            bar = figure.colorbar(
                ScalarMappable(cmap=MAP), ax=panels, location="bottom", aspect=12, shrink=0.3
            )
            bar.set_ticks([0, 1], labels=["none", "most"])
            bar.set_label(scale)
        figure.supxlabel(legend, color=MUTED, fontsize=5.6)
    return figure


def _draw(axes: style.Axes, picture: Picture) -> None:
    axes.imshow(picture.image, interpolation="antialiased")
    axes.set(xticks=[], yticks=[])
    axes.set_xlabel(picture.caption, fontsize=5, labelpad=2)
    for spine in axes.spines.values():
        spine.set(visible=True, color=picture.frame[0], linewidth=picture.frame[1])
    for outline in picture.outlines:
        if (outline.mask >= 0.5).any():
            # A border of background, so that an object that is cut off has an outline there too.
            framed = np.pad(np.asarray(outline.mask, float), 1)
            y, x = (np.arange(-1, n - 1) for n in framed.shape)
            line: dict[str, Any] = {"linewidths": [outline.width], "linestyles": [outline.dashes]}
            axes.contour(x, y, framed, levels=[0.5], colors=[outline.colour], **line)
    height, width = picture.image.shape[:2]  # which the border would widen
    axes.set(xlim=(-0.5, width - 0.5), ylim=(height - 0.5, -0.5))
    if picture.tag:
        box = {"boxstyle": "round,pad=0.28", "fc": picture.colour, "ec": "none", "alpha": 0.92}
        white: dict[str, Any] = {"fontsize": 7, "weight": "bold", "color": "white"}
        axes.text(0.05, 0.05, picture.tag, transform=axes.transAxes, bbox=box, va="bottom", **white)
    if picture.note:
        axes.text(0.5, 0.5, picture.note, transform=axes.transAxes, ha="center", color="white")


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
    away = ["", *(f", {distance:.2f} away" for distance in explanation.distances)]
    heads = [(role + more, INK) for role, more in zip(explanation.roles, away, strict=True)]
    maps = [
        Picture(overlay(photo, attention), note="" if attention.any() else "no place counts")
        for photo, attention in zip(explanation.photos, explanation.maps, strict=True)
    ]
    scale = f"what counts for their {'similarity' if explanation.same else 'difference'}"
    return sheet([[Picture(photo) for photo in explanation.photos], maps], heads, scale=scale, side=EXPLAINED)
