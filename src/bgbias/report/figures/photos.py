"""Photos, the masks of their objects, and the same objects on other backgrounds. Good: all
of the object, and nothing else, stands elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bgbias import seeds
from bgbias.evaluation.conditions import random_background
from bgbias.images.contact_sheet import MUTED
from bgbias.report import style
from bgbias.report.figures import _subject as subject
from bgbias.study.params import Study

PLACE = 1
CLASSES, DRAWS, ACROSS = 8, 2, 2
HEADS = ("photo", "its mask", "elsewhere", "elsewhere")
HEAD, GAP, BETWEEN = 0.24, 0.05, 0.2  # inches
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
        elsewhere = [random_background.view(photo, draw) for draw in range(DRAWS)]
        rows.append([photo.view, np.repeat(photo.mask[..., None], 3, axis=2), *elsewhere])
    return figure_photos(rows)


def figure_photos(rows: Sequence[Sequence[np.ndarray]]) -> style.Figure:
    """A row of pictures uint8 [H, W, 3] for each photo, as ``HEADS`` call them, in ``ACROSS`` blocks side by side."""
    down = -(-len(rows) // ACROSS)
    wide = len(HEADS) * ACROSS
    side = (style.WIDTH - (wide - ACROSS) * GAP - (ACROSS - 1) * BETWEEN) / wide
    block = len(HEADS) * side + (len(HEADS) - 1) * GAP + BETWEEN
    with style.style():
        figure = style.blank(style.WIDTH, HEAD + down * (side + GAP))
        for number, pictures in enumerate(rows):
            across, row = divmod(number, down)
            for column, picture in enumerate(pictures):
                left = across * block + column * (side + GAP)
                if not row:
                    style.text(
                        figure, left + side / 2, HEAD / 2, HEADS[column], ha="center", color=MUTED, fontsize=7
                    )
                style.photo(style.panel(figure, left, HEAD + row * (side + GAP), side, side), picture)
    return figure
