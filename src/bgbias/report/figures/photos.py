"""One test photo of each of several classes: as it is, its mask, and in front of two other backgrounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bgbias import seeds
from bgbias.evaluation.conditions import random_background
from bgbias.images import contact_sheet
from bgbias.report import look
from bgbias.report.figures import _shown as shown
from bgbias.study.params import Study

if TYPE_CHECKING:
    import numpy as np

PLACE = 1
ABOUT = "Photos, the masks of their objects, and the same objects in front of other backgrounds."
CLASSES, DRAWS = 8, 2
reads, settings = shown.corrupted, shown.settings


def draw(study: Study) -> look.Figure:
    """The sheet of a study, its photos drawn by the grid's name."""
    photos = shown.evaluation(study)
    ids, labels = photos.table.ids, photos.table.labels
    chosen: dict[int, int] = {}
    for row in seeds.generator("contact sheet", study.grid).permutation(len(ids)):
        if ids[row] in photos.usable and len(chosen) < CLASSES:
            chosen.setdefault(int(labels[row]), int(row))
    pictures: list[np.ndarray] = []
    for row in chosen.values():
        photo = photos.photo(row)
        replaced = (random_background.view(photo, draw) for draw in range(DRAWS))
        pictures += [photo.view, photo.mask, *replaced]
    return look.picture(contact_sheet.contact_sheet(pictures, columns=2 * (2 + DRAWS)))
