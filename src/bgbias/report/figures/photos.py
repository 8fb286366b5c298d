"""Photos, the masks of their objects, and the same objects on other backgrounds. Good: all
of the object, and nothing else, is on the new background.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bgbias import seeds
from bgbias.evaluation.conditions import random_background
from bgbias.images.contact_sheet import MUTED
from bgbias.report import style
from bgbias.report.figures import _subject as subject
from bgbias.report.sheets import Picture, sheet
from bgbias.study.params import Study

PLACE = 1
CLASSES, DRAWS, ACROSS = 8, 2, 2
HEADS = ("photo", "its mask", "composite", "composite")
reads, settings = subject.corrupted, subject.settings


def draw(study: Study) -> style.Figure:
    """The sheet of a study, its photos drawn by the grid's name."""
    photos = subject.evaluation(study)
    ids, labels = photos.table.ids, photos.table.labels
    chosen: dict[int, int] = {}
    for row in seeds.generator("contact sheet", study.grid).permutation(len(ids)):
        if ids[row] in photos.usable and len(chosen) < CLASSES:
            chosen.setdefault(int(labels[row]), int(row))
    rows = []
    for photo in map(photos.photo, chosen.values()):
        composites = [random_background.view(photo, draw) for draw in range(DRAWS)]
        rows.append([photo.view, np.repeat(photo.mask[..., None], 3, axis=2), *composites])
    return figure_photos(rows)


def figure_photos(rows: Sequence[Sequence[np.ndarray]]) -> style.Figure:
    """A row of pictures uint8 [H, W, 3] for each photo, as ``HEADS`` call them, in ``ACROSS`` blocks side by side."""
    drawn = [[Picture(picture) for picture in pictures] for pictures in rows]
    down = -(-len(drawn) // ACROSS)
    side_by_side = [[picture for row in drawn[first::down] for picture in row] for first in range(down)]
    heads = [(head, MUTED) for head in HEADS * ACROSS]
    return sheet(side_by_side, heads, side=style.WIDTH / len(heads))
