"""The object on backgrounds of its own place, or of another place where its class was seen (docs/methods.md, section 16).

Backgrounds of its class at the other place are what the object would have stood before there; those of other classes share the
place alone. Which place is the other one, and whose background it is, is drawn by the photo's key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bgbias.evaluation.conditions._controls import drop_copies, mix

if TYPE_CHECKING:
    from bgbias.evaluation.photos import Photo

NEEDS = frozenset({"masks", "inpainted"})
DRAWS = True
SETTINGS: tuple[str, ...] = ()  # ranked within a place and across places alone (evaluation/across_places.py)


def candidates(photo: Photo, draw: int, *, is_other_place: bool, is_of_class: bool) -> np.ndarray:
    """Rows of photos of the photo's own place, or of the other one, that are of its class, or of all others, int64 [n]."""
    split = photo.split
    if split.places is None:
        return np.empty(0, np.int64)
    place = (split.places.other(draw) if is_other_place else split.places.own)[photo.row]
    rows = split.trusted[split.places.own[split.trusted] == place]
    of_class = split.table.labels[rows] == photo.label
    return drop_copies(photo, rows[of_class == is_of_class])


def _member(name: str, title: str, doc: str, **which: bool) -> dict[str, Any]:
    return {
        "__doc__": doc,
        "TITLE": title,
        **mix(name, lambda photo, draw: candidates(photo, draw, **which)),
    }


MEMBERS = {
    name: _member(name, title, doc, is_other_place=is_other_place, is_of_class=is_of_class)
    for name, is_other_place, is_of_class, title, doc in (
        (
            "class_here",
            False,
            True,
            "backgrounds of its class at its place",
            "The object on the background of another photo of its class at its own place.",
        ),
        (
            "class_there",
            True,
            True,
            "backgrounds of its class at another place",
            "The object on the background of a photo of its class at another place: what it would have stood before there.",
        ),
        (
            "others_here",
            False,
            False,
            "backgrounds of other classes at its place",
            "The object on the background of another class at its own place.",
        ),
        (
            "others_there",
            True,
            False,
            "backgrounds of other classes at another place",
            "The object on the background of another class at another place.",
        ),
    )
}
