"""What figures show of a grid's photos: of one dataset, as the grid's first backbone sees them, and by a pair of models; and the
figures of photos alone, and of what is retrieved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bgbias import seeds
from bgbias.engine import inputs
from bgbias.evaluation import embeddings
from bgbias.evaluation.conditions import CLEAN, RANDOM_BACKGROUND, random_background
from bgbias.images.contact_sheet import INK, MUTED
from bgbias.masks.policy import read_mask_table
from bgbias.report import look, names, queries, sources
from bgbias.study import plan
from bgbias.study.cell import PLAIN, Cell
from bgbias.study.params import Study

if TYPE_CHECKING:
    from bgbias.evaluation.photos import EvaluationPhotos
    from bgbias.study.album import Album

CLASSES, DRAWS, ACROSS = 8, 2, 2
HEADS = ("photo", "its mask", "elsewhere", "elsewhere")
TOP, GAP, BETWEEN = 0.24, 0.05, 0.2  # inches
NEIGHBOURS = 6  # shown for each query
SMALLEST = 0.1  # share of the photo that an object covers to be seen in a small picture
BESIDE, HEAD = 0.7, 0.3  # inches: of methods' names and tallies, and of the heads of what is retrieved


def dataset(study: Study) -> str:
    """The last dataset of the grid's first block."""
    return study.cells[0].datasets[-1]


def pair(study: Study) -> tuple[Cell, ...]:
    """A plain and a cured model of the dataset that differ in nothing else; nothing if the grid has none."""
    cells = plan.cells(study)
    for cell in cells:
        cured = replace(cell, method=names.BGAUGMENT)
        if cell.dataset == dataset(study) and cell.method == PLAIN and cured in cells:
            return cell, cured
    return ()


def corrupted(study: Study) -> sources.Sources:
    """Photos, masks and the backgrounds of the test split."""
    name = dataset(study)
    return inputs.photos(name) | inputs.masks(study, name) | inputs.pools(study, name, "test")


def cut_by(study: Study) -> dict[str, Any]:
    """Settings: the size that photos are shown at, that of the first backbone."""
    named = plan.backbone(study, study.cells[0].backbones[0])
    return {"backbone": {"name": named.kind, **named.params().model_dump(exclude={"weights", "sha256"})}}


def settings(study: Study) -> dict[str, Any]:
    """Settings: by what photos are cut, and how masks are used."""
    return cut_by(study) | inputs.mask_policy(study)


def evaluation(study: Study) -> EvaluationPhotos:
    """The test photos, with all that puts them on other backgrounds."""
    opened = album(study)
    return opened.evaluation(opened.table("test"), random_background.NEEDS, "test")


def album(study: Study) -> Album:
    """The dataset as the backbone sees it."""
    return sources.album(study, dataset(study), study.cells[0].backbones[0])


def draw_photos(study: Study) -> look.Figure:
    """The sheet of a study, its photos drawn by the grid's name."""
    photos = evaluation(study)
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


def figure_photos(rows: Sequence[Sequence[np.ndarray]]) -> look.Figure:
    """A row of pictures uint8 [H, W, 3] for each photo, as ``HEADS`` call them, in ``ACROSS`` blocks side by side."""
    down = -(-len(rows) // ACROSS)
    wide = len(HEADS) * ACROSS
    side = (look.WIDTH - (wide - ACROSS) * GAP - (ACROSS - 1) * BETWEEN) / wide
    block = len(HEADS) * side + (len(HEADS) - 1) * GAP + BETWEEN
    with look.style():
        figure = look.blank(look.WIDTH, TOP + down * (side + GAP))
        for number, pictures in enumerate(rows):
            across, row = divmod(number, down)
            for column, picture in enumerate(pictures):
                left = across * block + column * (side + GAP)
                if not row:
                    middle = left + side / 2
                    look.text(figure, middle, TOP / 2, HEADS[column], ha="center", color=MUTED, fontsize=7)
                look.photo(look.panel(figure, left, TOP + row * (side + GAP), side, side), picture)
    return figure


def _retrieval(study: Study) -> sources.Sources:
    return corrupted(study) | sources.of_models(pair(study), "embed", "embeddings")


def draw_retrieval(study: Study) -> look.Figure:
    from bgbias.evaluation.whole_gallery import among

    photos = evaluation(study)
    read, labels = _retrieval(study), photos.table.labels
    hits, ranked, usable = {}, {}, None
    for cell in pair(study):
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


def figure_retrieval(rows: Mapping[str, Sequence[Retrieval]]) -> look.Figure:
    """The queries before each background, method by method: ``{"plain": [A, B], "bgaugment": [A, B]}``.

    Right neighbours have a green frame and a tick, wrong ones a red frame and a cross; each row ends with the
    tally.
    """
    named = [(method, row) for method, of_method in rows.items() for row in of_method]
    depth = max(len(row.retrieved) for _, row in named)
    side = (look.WIDTH - BESIDE) / (depth + 1)
    with look.style():
        figure = look.blank(look.WIDTH, HEAD + len(named) * side, layout="constrained")
        panels = figure.subplots(len(named), depth + 1, squeeze=False)
        for axes, word in zip(panels[0], ["query", "nearest", *range(2, depth + 1)], strict=True):
            axes.set_title(str(word), loc="center", weight="normal", color=MUTED)
        for (method, row), of_row in zip(named, panels, strict=True):
            of_row[0].set_ylabel(names.method(method), color=look.ink(method), weight="bold")
            _row(row, of_row)
    return figure


def _row(row: Retrieval, panels: Sequence[look.Axes]) -> None:
    query, *neighbours = panels
    look.photo(query, row.query, frame=INK, line=0.8)
    if row.title:
        box = {"boxstyle": "round,pad=0.25", "fc": "white", "ec": "none", "alpha": 0.85}
        dark = {"color": INK, "fontsize": 5.5}
        look.tag(query, 0.5, 0.04, row.title, box, ha="center", va="bottom", **dark)
    for axes in neighbours[len(row.retrieved) :]:
        axes.set_axis_off()
    for (image, correct), axes in zip(zip(row.retrieved, row.correct, strict=True), neighbours, strict=False):
        # A tick or a cross: the frame's message for those who see no green and red.
        mark, colour = ("✓", look.RIGHT) if correct else ("✗", look.WRONG)
        look.photo(axes, image, frame=colour, line=2.4)
        sign = {"boxstyle": "circle,pad=0.22", "fc": colour, "ec": "white", "lw": 0.7}
        white = {"color": "white", "weight": "bold", "fontsize": 6.5}
        look.tag(axes, 0.9, 0.9, mark, sign, ha="center", va="center", **white)
    tally = f"{sum(map(bool, row.correct))}/{len(row.correct)}"
    look.tag(neighbours[-1], 1.12, 0.5, tally, ha="left", va="center", weight="bold", fontsize=8.5)


MEMBERS: dict[str, dict[str, Any]] = {
    "photos": {
        "__doc__": """Photos, the masks of their objects, and the same objects on other backgrounds. Good: all
        of the object, and nothing else, stands elsewhere.""",
        "PLACE": 1,
        "reads": corrupted,
        "draw": draw_photos,
    },
    "retrieval": {
        "__doc__": """One query on its own and on another background, and what each model retrieves from
        original photos. A tick: of the query's class. Good: ticks in both rows; bad: in the first alone.
        The query was chosen for the contrast; what is usual, the tables say.

        Figure 1 of Kobs & Hotho (2022).""",
        "PLACE": 3,
        "wanted": pair,
        "reads": _retrieval,
        "draw": draw_retrieval,
    },
}
