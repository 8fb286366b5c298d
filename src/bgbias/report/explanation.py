"""Similarity attention as a figure: each photo, and below it the places by which the model compares it with the others."""

from __future__ import annotations

from matplotlib.figure import Figure

from bgbias.attribution.explanation import Explanation
from bgbias.images.contact_sheet import INK
from bgbias.report import look
from bgbias.report.maps import MARGIN, overlay, sheet

SIDE = 1.7


def figure_explanation(found: Explanation) -> Figure:
    """A column a photo. Below the photo stands its map: bright where it is like the anchor (or, if the photos are
    compared as different, unlike the other); each distance is that to the first photo.
    """
    columns = len(found.photos)
    # Two photos alone would leave no room for the words below.
    margin = MARGIN + max(0.0, (3 - columns) * SIDE / 4)
    heads = [
        found.roles[0],
        *(f"{r}, {d:.2f} away" for r, d in zip(found.roles[1:], found.distances, strict=True)),
    ]
    words = f"what counts for their {'similarity' if found.same else 'difference'}: nothing"
    with look.style():
        figure, (upper, lower) = sheet([(head, INK) for head in heads], 2, words, SIDE, margin)
        for above, below, photo, attention in zip(upper, lower, found.photos, found.maps, strict=True):
            look.photo(above, photo)
            look.photo(below, overlay(photo, attention))
            if not attention.any():
                below.text(0.5, 0.5, "no place counts", transform=below.transAxes, ha="center", color="white")
    return figure
