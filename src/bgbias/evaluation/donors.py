"""Whose surroundings an object is put in front of: another photo's of the split, drawn by names (docs/methods.md, section 9).

With u the first 8 bytes of sha256("<dataset>|<split>|<condition>|<draw>|<item>"), the donor is photo u mod n of n candidates in
the table's order. Candidates have a trusted mask: of others, what hides the object is not known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bgbias import seeds

if TYPE_CHECKING:
    from bgbias.evaluation.photos import Photo


def same_class(photo: Photo) -> np.ndarray:
    """Rows of the other photos of its class, int64 [n]."""
    rows = photo.split.trusted_of_class[photo.label]
    return rows[rows != photo.row]


def other_classes(photo: Photo) -> np.ndarray:
    """Rows of the photos of all other classes, int64 [n]."""
    rows = photo.split.trusted
    return rows[photo.split.table.labels[rows] != photo.label]


def next_class(photo: Photo) -> np.ndarray:
    """Rows of the photos of the class that follows, int64 [n]; the first one follows the last."""
    classes = list(photo.split.trusted_of_class)
    return photo.split.trusted_of_class[classes[(classes.index(photo.label) + 1) % len(classes)]]


def drawn(photo: Photo, condition: str, draw: int, candidates: np.ndarray) -> Photo:
    """The candidate that the photo's key, ``condition`` and ``draw`` name; the photo itself where there is no candidate."""
    if not len(candidates):
        return photo
    key_set, key_item = photo.key
    number = seeds.number(seeds.key(key_set, condition, draw, key_item))
    return photo.split.photo(int(candidates[number % len(candidates)]))
