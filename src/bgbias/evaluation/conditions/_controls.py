"""Controls that take the object or its background away, or put the object on another photo's background (Xiao et al.,
"Noise or Signal", ICLR 2021; docs/methods.md, section 9).

With u the first 8 bytes of sha256("<dataset>|<split>|<condition>|<draw>|<item>"), whose background it is, is photo u mod n of n
candidates in the table's order. Candidates have a trusted mask: of others, what hides the object is not known. A copy is no
candidate: its background is the photo's own.

Where a dataset says where photos were taken, other conditions take the surroundings of photos of the object's own place, or of
another place where its class was seen (section 16): backgrounds of its class there are what the object would have stood before,
those of other classes share the place alone. They are ranked within a place and across places alone
(``evaluation/across_places.py``). Which place is the other one is drawn by the photo's key, too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from bgbias import seeds
from bgbias.evaluation.conditions import QUERY_ONLY, SYMMETRIC
from bgbias.images.composite import paste_on_grey

if TYPE_CHECKING:
    from bgbias.evaluation.photos import Photo

NEEDS = frozenset({"masks", "inpainted"})
DRAWS, BATCHED = False, True
SETTINGS = (SYMMETRIC, QUERY_ONLY)


def same_class(photo: Photo, draw: int = 0) -> np.ndarray:
    """Rows of the other photos of its class, int64 [n]."""
    return drop_copies(photo, photo.split.trusted_of_class[photo.label])


def other_classes(photo: Photo, draw: int = 0) -> np.ndarray:
    """Rows of the photos of all other classes, int64 [n]."""
    rows = photo.split.trusted
    return drop_copies(photo, rows[photo.split.table.labels[rows] != photo.label])


def next_class(photo: Photo, draw: int = 0) -> np.ndarray:
    """Rows of the photos of the class that follows, int64 [n]; the first one follows the last."""
    classes = list(photo.split.trusted_of_class)
    following = classes[(classes.index(photo.label) + 1) % len(classes)]
    return drop_copies(photo, photo.split.trusted_of_class[following])


def of_place(photo: Photo, draw: int, *, is_other_place: bool, is_of_class: bool) -> np.ndarray:
    """Rows of photos of the photo's own place, or of the other one, that are of its class, or of all others, int64 [n]."""
    split = photo.split
    if split.places is None:
        return np.empty(0, np.int64)
    place = (split.places.other(draw) if is_other_place else split.places.own)[photo.row]
    rows = split.trusted[split.places.own[split.trusted] == place]
    of_class = split.table.labels[rows] == photo.label
    return drop_copies(photo, rows[of_class == is_of_class])


def drop_copies(photo: Photo, rows: np.ndarray) -> np.ndarray:
    """Those of these rows that show another view than the photo."""
    originals = photo.split.originals
    return rows[originals[rows] != originals[photo.row]]


def draw_donor(photo: Photo, condition: str, draw: int, candidates: np.ndarray) -> Photo:
    """The candidate that the photo's key, ``condition`` and ``draw`` name; the photo itself where there is no candidate."""
    if not len(candidates):
        return photo
    key_set, key_item = photo.key
    number = seeds.number(seeds.key(key_set, condition, draw, key_item))
    return photo.split.photo(int(candidates[number % len(candidates)]))


def mix(condition: str, candidates: Callable[[Photo, int], np.ndarray]) -> dict[str, Any]:
    """The object on the surroundings of one of the candidates: rows int64 [n] for a photo and the number of a draw."""

    def donor(photo: Photo, draw: int) -> Photo:
        return draw_donor(photo, condition, draw, candidates(photo, draw))

    def view(photo: Photo, draw: int) -> np.ndarray:
        return photo.foreground.before(photo.lender(donor, draw).surroundings)

    return {"DRAWS": True, "donor": donor, "view": view}


def mix_place(condition: str, *, is_other_place: bool, is_of_class: bool) -> dict[str, Any]:
    """``mix`` with the photos ``of_place``."""
    candidates = partial(of_place, is_other_place=is_other_place, is_of_class=is_of_class)
    return {"SETTINGS": (), **mix(condition, candidates)}


ON_GREY = {"NEEDS": frozenset({"masks"})}
MEMBERS: dict[str, dict[str, Any]] = {
    "only_fg": {
        "__doc__": "The object alone, on grey: what is lost without any background (Xiao et al. 2021: Only-FG).",
        "TITLE": "the object alone",
        "view": lambda photo, draw: paste_on_grey(photo.view, photo.mask),
        **ON_GREY,
    },
    "no_fg": {
        "__doc__": "The photo with grey in the object's place (Xiao et al. 2021: No-FG). The silhouette is left,"
        " and tells what stood there.",
        "TITLE": "no object",
        "view": lambda photo, draw: paste_on_grey(photo.view, 255 - photo.mask),
        **ON_GREY,
    },
    "only_bg": {
        "__doc__": "The background alone, the object's place filled from around it (after Xiao et al. 2021: Only-BG-T).",
        "TITLE": "the background alone",
        "view": lambda photo, draw: photo.surroundings,
    },
    "own_inpainted": {
        "__doc__": "The object cut out and put back on its own background, whose hole is filled from around it"
        " as for every other control: what cutting and pasting cost by themselves.",
        "TITLE": "its own background, inpainted",
        "view": lambda photo, draw: photo.foreground.before(photo.surroundings),
    },
    "mixed_same": {
        "__doc__": "The object on the background of another photo of its class (Xiao et al. 2021: Mixed-Same):"
        " this very background is lost, the class's kind of background stays.",
        "TITLE": "backgrounds of its class",
        **mix("mixed_same", same_class),
    },
    "mixed_rand": {
        "__doc__": "The object on the background of a photo of some other class (Xiao et al. 2021: Mixed-Rand).",
        "TITLE": "backgrounds of other classes",
        **mix("mixed_rand", other_classes),
    },
    "mixed_next": {
        "__doc__": "The object on the background of a photo of the next class (Xiao et al. 2021: Mixed-Next):"
        " always one wrong class.",
        "TITLE": "backgrounds of the next class",
        **mix("mixed_next", next_class),
    },
    "class_here": {
        "__doc__": "The object on the background of another photo of its class at its own place.",
        "TITLE": "backgrounds of its class at its place",
        **mix_place("class_here", is_other_place=False, is_of_class=True),
    },
    "class_there": {
        "__doc__": "The object on the background of a photo of its class at another place:"
        " what it would have stood before there.",
        "TITLE": "backgrounds of its class at another place",
        **mix_place("class_there", is_other_place=True, is_of_class=True),
    },
    "others_here": {
        "__doc__": "The object on the background of another class at its own place.",
        "TITLE": "backgrounds of other classes at its place",
        **mix_place("others_here", is_other_place=False, is_of_class=False),
    },
    "others_there": {
        "__doc__": "The object on the background of another class at another place.",
        "TITLE": "backgrounds of other classes at another place",
        **mix_place("others_there", is_other_place=True, is_of_class=False),
    },
}
