"""One query on its own and on another background, and what each model retrieves from
original photos. A tick: of the query's class. Good: ticks in both rows; bad: in the first alone.
The query was chosen for the contrast; what is usual, the tables say.

Figure 1 of Kobs & Hotho (2022).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from bgbias.engine import inputs
from bgbias.evaluation import embeddings
from bgbias.evaluation.conditions import CLEAN, RANDOM_BACKGROUND, random_background
from bgbias.images import contact_sheet
from bgbias.masks.policy import read_mask_table
from bgbias.report import names, queries, sources, style
from bgbias.report.figures import _subject as subject
from bgbias.report.maps import LABEL, Picture, sheet
from bgbias.study.cell import PLAIN
from bgbias.study.params import Study

PLACE = 3
wanted, settings = subject.pair, subject.settings
NEIGHBOURS = 6  # shown for each query
SMALLEST = 0.1  # share of the photo that an object covers to be seen in a small picture


def reads(study: Study) -> sources.Sources:
    return subject.corrupted(study) | inputs.of_models(subject.pair(study), "embed", "embeddings")


def draw(study: Study) -> style.Figure:
    from bgbias.evaluation.whole_gallery import rank_among

    photos = subject.evaluation(study)
    read, labels = reads(study), photos.table.labels
    hits, ranked = {}, {}
    embedded = {
        c.method: embeddings.read(read[f"embeddings {c.name}"].path(study)) for c in subject.pair(study)
    }
    for method, model in embedded.items():
        for background, condition in (("own", CLEAN), ("other", RANDOM_BACKGROUND)):
            near = rank_among(model.views[condition, 0], model.views[CLEAN, 0], labels, model.given)
            row = method, background
            ranked[row], hits[row] = near.indices[:, :NEIGHBOURS], near.same_label[:, :NEIGHBOURS]
    masks = read_mask_table(read["mask_table"].path(study))
    usable = trusted_queries(embedded[PLAIN].is_query, photos.table.ids, masks)
    query = choose_query({row: h.sum(1) for row, h in hits.items()}, usable)
    photo = photos.photo(query)
    views = {"own": (photo.view, "own background"), "other": (random_background.view(photo, 0), "another")}
    rows: dict[str, list[Retrieval]] = {}
    for (method, background), of_query in ranked.items():
        retrieved = [photos.clean(photos.table.ids[i]) for i in of_query[query]]
        picture, title = views[background]
        right = hits[method, background][query].tolist()
        rows.setdefault(method, []).append(Retrieval(picture, retrieved, right, title))
    return figure_retrieval(rows)


def trusted_queries(usable: np.ndarray, ids: Sequence[str], masks: pd.DataFrame) -> np.ndarray:
    """The usable queries on whose mask a picture can rest, clear and large; else all of them."""
    areas, unsure = masks.set_index("image_id")["area"], queries.unsure(masks)
    good = np.array([i not in unsure and areas.get(i, 0) >= SMALLEST for i in ids])
    return usable & good if (usable & good).any() else usable


def choose_query(hits: Mapping[tuple[str, str], np.ndarray], usable: np.ndarray) -> int:
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


def figure_retrieval(rows: Mapping[str, Sequence[Retrieval]]) -> style.Figure:
    """The queries before each background, method by method: ``{"plain": [A, B], "bgaugment": [A, B]}``, each with how many of its
    neighbours are right. Right ones have a green frame and a tick, wrong ones a red frame and a cross.
    """
    lines = [(method, row) for method, of_method in rows.items() for row in of_method]
    across = 1 + max(len(row.retrieved) for _, row in lines)
    heads = [(str(word), contact_sheet.MUTED) for word in ("query", "nearest", *range(2, across))]
    labels = [(names.method(method), style.ink(method)) for method, _ in lines]
    pictures = [_list_pictures(row) for _, row in lines]
    return sheet(pictures, heads, labels, side=(style.WIDTH - LABEL) / across)


def _list_pictures(row: Retrieval) -> list[Picture]:
    tally = f"{sum(map(bool, row.correct))}/{len(row.correct)}"
    pictures = [Picture(row.query, tag=tally, caption=row.title, frame=(contact_sheet.INK, 0.8))]
    for image, correct in zip(row.retrieved, row.correct, strict=True):
        # A tick or a cross: the frame's message for those who see no green and red.
        mark, colour = ("✓", style.RIGHT) if correct else ("✗", style.WRONG)
        pictures.append(Picture(image, tag=mark, colour=colour, frame=(colour, 2.4)))
    return pictures
