"""Similarity attention as a figure: each photo, and below it the places by which the model compares it with the others."""

from __future__ import annotations

from matplotlib.figure import Figure

from bgbias.attribution.explanation import Explanation
from bgbias.report import look
from bgbias.report.maps import FOOT, GAP, HEAD, MARGIN, overlay, scale

SIDE = 1.7


def figure_explanation(found: Explanation) -> Figure:
    """A column a photo. Below the photo stands its map: bright where it is like the anchor (or, if the photos are
    compared as different, unlike the other); each distance is that to the first photo.
    """
    columns = len(found.photos)
    # Two photos alone would leave no room for the words below.
    margin = MARGIN + max(0.0, (3 - columns) * SIDE / 4)
    width, height = 2 * margin + columns * SIDE + (columns - 1) * GAP, HEAD + 2 * (SIDE + GAP) + FOOT
    heads = [
        found.roles[0],
        *(f"{r}, {d:.2f} away" for r, d in zip(found.roles[1:], found.distances, strict=True)),
    ]
    with look.style():
        figure = look.blank(width, height)
        for column, (photo, attention, head) in enumerate(zip(found.photos, found.maps, heads, strict=True)):
            left = margin + column * (SIDE + GAP)
            upper = look.panel(figure, left, HEAD, SIDE, SIDE)
            look.photo(upper, photo)
            upper.set_title(head, loc="center", pad=4)
            lower = look.panel(figure, left, HEAD + SIDE + GAP, SIDE, SIDE)
            look.photo(lower, overlay(photo, attention))
            if not attention.any():
                lower.text(0.5, 0.5, "no place counts", transform=lower.transAxes, ha="center", color="white")
        words = "similarity" if found.same else "difference"
        scale(figure, width, height - FOOT + 0.03, f"what counts for their {words}: nothing")
    return figure
