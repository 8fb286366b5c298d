"""One query on its own and on another background, and what each model retrieves from
original photos. A tick: of the query's class. Good: ticks in both rows; bad: in the first alone.
The query was chosen for the contrast; what is usual, the tables say.

Figure 1 of Kobs & Hotho (2022).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from bgbias.engine import inputs
from bgbias.evaluation import embeddings
from bgbias.evaluation.conditions import CLEAN, RANDOM_BACKGROUND
from bgbias.images import contact_sheet
from bgbias.masks.policy import read_mask_table
from bgbias.report import names, queries, sources, style
from bgbias.report.figures import _subject as subject
from bgbias.report.queries import AskedModel, FoundPhoto, ShownQuery
from bgbias.report.sheets import LABEL, Picture, sheet
from bgbias.study.params import Study

PLACE = 3
wanted, settings = subject.pair, subject.settings
NEIGHBOURS = 6  # shown for each query
SMALLEST = 0.1  # share of the photo that an object covers to be seen in a small picture


def reads(study: Study) -> sources.Sources:
    return subject.corrupted(study) | inputs.of_models(subject.pair(study), "embed", "embeddings")


def draw(study: Study) -> style.Figure:
    from bgbias.evaluation.whole_gallery import rank_among

    photos, read = subject.evaluation(study), reads(study)
    frame = photos.table.frame
    asked = []
    for cell in subject.pair(study):
        model = embeddings.read(read[f"embeddings {cell.name}"].path(study))
        hits = {}
        for condition in (CLEAN, RANDOM_BACKGROUND):
            near = rank_among(
                model.views[condition, 0], model.views[CLEAN, 0], photos.table.labels, model.given
            )
            hits[condition] = near.same_label[:, :NEIGHBOURS].sum(1)
        asked.append(AskedModel(cell.method, model, pd.DataFrame(hits, index=photos.table.ids)))
    masks = read_mask_table(read["mask_table"].path(study))
    usable = trusted_queries(asked[0].embeddings.is_query, photos.table.ids, masks)
    query = photos.table.ids[choose_query(asked[0].levels, asked[1].levels, usable)]
    names_of = dict(zip(frame["label"].astype(int), frame["class_name"], strict=True))
    return figure_retrieval(queries.show(query, asked, photos, names_of, NEIGHBOURS))


def trusted_queries(usable: np.ndarray, ids: Sequence[str], masks: pd.DataFrame) -> np.ndarray:
    """The usable queries on whose mask a picture can rest, clear and large; else all of them."""
    areas, unsure = masks.set_index("image_id")["area"], queries.unsure(masks)
    good = np.array([i not in unsure and areas.get(i, 0) >= SMALLEST for i in ids])
    return usable & good if (usable & good).any() else usable


def choose_query(plain: pd.DataFrame, cured: pd.DataFrame, usable: np.ndarray) -> int:
    """The usable query that shows the contrast best: found by both models before its own background, lost most by plain and
    least by the other before another one. The figure illustrates; the tables measure."""
    both = np.minimum(plain[CLEAN], cured[CLEAN])
    contrast = cured[RANDOM_BACKGROUND] - plain[RANDOM_BACKGROUND]
    return int(np.argmax(np.where(usable, both + 2 * contrast, -np.inf)))


def figure_retrieval(shown: ShownQuery) -> style.Figure:
    """The query before each background, model by model, each with how many of its neighbours are right. Right ones have a green
    frame and a tick, wrong ones a red frame and a cross.
    """
    rows, labels = [], []
    for answer in shown.answers:
        for photo, title, found in (
            (shown.photo, "own background", answer.found),
            (shown.elsewhere, "another", answer.found_elsewhere),
        ):
            tally = f"{sum(one.right for one in found)}/{len(found)}"
            query = Picture(photo, tag=tally, caption=title, frame=(contact_sheet.INK, 0.8))
            rows.append([query, *map(_frame, found)])
            labels.append((names.method(answer.title), style.ink(answer.title)))
    across = max(map(len, rows))
    heads = [(str(word), contact_sheet.MUTED) for word in ("query", "nearest", *range(2, across))]
    return sheet(rows, heads, labels, side=(style.WIDTH - LABEL) / across)


def _frame(found: FoundPhoto) -> Picture:
    # A tick or a cross: the frame's message for those who see no green and red.
    mark, colour = ("✓", style.RIGHT) if found.right else ("✗", style.WRONG)
    return Picture(found.picture, tag=mark, colour=colour, frame=(colour, 2.4))
