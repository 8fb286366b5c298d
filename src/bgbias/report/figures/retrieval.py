"""One query in front of its own and of another background, and what each model retrieves from
original photos. A tick: of the query's class. Good: ticks in both rows; bad: in the first alone.
The query was chosen for the contrast; what is usual, the tables say.

Figure 1 of Kobs & Hotho (2022).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from bgbias.evaluation import embeddings
from bgbias.evaluation.conditions import CLEAN, RANDOM_BACKGROUND, random_background
from bgbias.images import contact_sheet
from bgbias.masks.policy import read_mask_table
from bgbias.report import look, names, queries, sources
from bgbias.report.figures import _shown as shown
from bgbias.study.cell import PLAIN
from bgbias.study.params import Study

PLACE = 3
wanted, settings = shown.pair, shown.settings
NEIGHBOURS = 6  # shown for each query
SMALLEST = 0.1  # share of the photo that an object covers to be seen in a small picture
MARGIN, GAP, GAP_AFTER_QUERY, GAP_BETWEEN_METHODS = 0.06, 0.09, 0.2, 0.24
LABEL, TALLY, HEAD = 0.3, 0.42, 0.24


def reads(study: Study) -> sources.Sources:
    return shown.corrupted(study) | sources.of_models(shown.pair(study), "embed", "embeddings")


def draw(study: Study) -> look.Figure:
    from bgbias.evaluation.whole_gallery import among

    photos = shown.evaluation(study)
    read, labels = reads(study), photos.table.labels
    hits, ranked, usable = {}, {}, None
    for cell in shown.pair(study):
        embedded = embeddings.read(read[f"embeddings {cell.name}"].path(study))
        usable = embedded.asked if usable is None else usable
        for background, condition in (("own", CLEAN), ("other", RANDOM_BACKGROUND)):
            seen, clean = embedded.views[condition, 0], embedded.views[CLEAN, 0]
            near = among(seen, clean, labels, embedded.given)
            row = cell.method, background
            ranked[row], hits[row] = near.indices[:, :NEIGHBOURS], near.same_label[:, :NEIGHBOURS]
    assert usable is not None  # plain comes first
    usable = trusted(usable, photos.table.ids, read_mask_table(read["mask_table"].path(study)))
    query = chosen_query({row: h.sum(1) for row, h in hits.items()}, usable)
    photo = photos.photo(query)
    asked = {"own": (photo.view, "own background"), "other": (random_background.view(photo, 0), "another")}
    rows: dict[str, list[Retrieval]] = {}
    for (method, background), of_query in ranked.items():
        retrieved = [photos.clean(photos.table.ids[i]) for i in of_query[query]]
        picture, title = asked[background]
        right = hits[method, background][query].tolist()
        rows.setdefault(method, []).append(Retrieval(picture, retrieved, right, title))
    return figure_retrieval(rows)


def trusted(usable: np.ndarray, ids: Sequence[str], masks: pd.DataFrame) -> np.ndarray:
    """The usable queries on whose mask a picture can rest, clear and large; else all of them."""
    areas, unsure = masks.set_index("image_id")["area"], queries.unsure(masks)
    good = np.array([i not in unsure and areas.get(i, 0) >= SMALLEST for i in ids])
    return usable & good if (usable & good).any() else usable


def chosen_query(hits: Mapping[tuple[str, str], np.ndarray], usable: np.ndarray) -> int:
    """The usable query that shows the contrast best: found by both models before its own background, lost most by plain and
    least by the other before another one. The figure illustrates; the tables measure."""
    (cured,) = {method for method, _ in hits} - {PLAIN}
    both = np.minimum(hits[PLAIN, "own"], hits[cured, "own"])
    contrast = hits[cured, "other"] - hits[PLAIN, "other"]
    return int(np.argmax(np.where(usable, both + 2 * contrast, -np.inf)))


@dataclass(frozen=True)
class Retrieval:
    """One row: a query, its nearest neighbours best first (uint8 RGB [H, W, 3]), and which are of its class.

    ``title`` names the row's background, e.g. ``own background`` or ``brick wall``.
    """

    query: np.ndarray
    retrieved: Sequence[np.ndarray]
    correct: Sequence[bool]
    title: str = ""

    def __post_init__(self) -> None:
        if len(self.retrieved) != len(self.correct):
            raise ValueError(f"{len(self.retrieved)} neighbours but {len(self.correct)} marks")


def figure_retrieval(rows: Mapping[str, Sequence[Retrieval]]) -> look.Figure:
    """The queries before each background, method by method: ``{"plain": [A, B], "bgaugment": [A, B]}``.

    Right neighbours have a green frame and a tick, wrong ones a red frame and a cross; each row ends with the
    tally.
    """
    depth = max(len(row.retrieved) for of_method in rows.values() for row in of_method)
    left = MARGIN + LABEL
    side = (look.WIDTH - left - GAP_AFTER_QUERY - (depth - 1) * GAP - TALLY) / (depth + 1)
    block = {method: len(of_method) * side + (len(of_method) - 1) * GAP for method, of_method in rows.items()}
    height = HEAD + sum(block.values()) + (len(rows) - 1) * GAP_BETWEEN_METHODS + MARGIN
    with look.style():
        figure = look.blank(look.WIDTH, height)
        beside = left + side + GAP_AFTER_QUERY
        places = [left, *(beside + rank * (side + GAP) for rank in range(depth))]
        for place, word in zip(places, ["query", "nearest", *range(2, depth + 1)], strict=True):
            centre = place + side / 2
            look.text(figure, centre, HEAD / 2, str(word), ha="center", color=contact_sheet.MUTED)
        top = HEAD
        for method, of_method in rows.items():
            _method(figure, method, top, block[method])
            for row in of_method:
                _row(figure, row, left, top, side)
                top += side + GAP
            top += GAP_BETWEEN_METHODS - GAP
    return figure


def _method(figure: look.Figure, method: str, top: float, height: float) -> None:
    """The method's name beside its rows, on a bar of its colour."""
    bar = look.panel(figure, MARGIN, top, 0.2, height)
    bar.set_facecolor(look.ink(method))
    bar.set(xticks=[], yticks=[])
    for spine in bar.spines.values():
        spine.set_visible(False)
    white: dict[str, Any] = {"color": "white", "weight": "bold", "rotation": 90}
    bar.text(0.5, 0.5, names.method(method), ha="center", va="center", **white)


def _row(figure: look.Figure, row: Retrieval, left: float, top: float, side: float) -> None:
    query = look.panel(figure, left, top, side, side)
    look.photo(query, row.query, frame=contact_sheet.INK, line=0.8)
    if row.title:
        box = {"boxstyle": "round,pad=0.25", "fc": "white", "ec": "none", "alpha": 0.85}
        dark = {"color": contact_sheet.INK, "fontsize": 5.5}
        look.tag(query, 0.5, 0.04, row.title, box, ha="center", va="bottom", **dark)
    place = left + side + GAP_AFTER_QUERY
    for image, correct in zip(row.retrieved, row.correct, strict=True):
        axes = look.panel(figure, place, top, side, side)
        # A tick or a cross: the frame's message for those who see no green and red.
        mark, colour = ("✓", look.RIGHT) if correct else ("✗", look.WRONG)
        look.photo(axes, image, frame=colour, line=2.4)
        sign = {"boxstyle": "circle,pad=0.22", "fc": colour, "ec": "white", "lw": 0.7}
        white = {"color": "white", "weight": "bold", "fontsize": 6.5}
        look.tag(axes, 0.9, 0.9, mark, sign, ha="center", va="center", **white)
        place += side + GAP
    tally = f"{sum(map(bool, row.correct))}/{len(row.correct)}"
    look.text(figure, place, top + side / 2, tally, ha="left", weight="bold", fontsize=8.5)
