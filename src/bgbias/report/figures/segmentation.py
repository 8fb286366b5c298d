"""One-shot segmentation as a figure: what each model shares two photos of a class by, and the object that GrabCut makes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bgbias.engine import inputs
from bgbias.engine.node import Made
from bgbias.images import contact_sheet
from bgbias.report import names
from bgbias.report.figures import _look as look
from bgbias.report.figures import _shown as shown
from bgbias.report.figures._maps import FOOT, GAP, HEAD, MARGIN, number, overlay, scale
from bgbias.study import plan
from bgbias.study.params import Study

PLACE = 5
ABOUT = (
    "What each model shares a photo with another of its class by, and what GrabCut makes of it. The object's true place is"
    " outlined; the number is the intersection over union."
)
settings = shown.cut_by
SIDE = 1.3


def wanted(study: Study) -> bool:
    """Whether the grid asks for segmentation, and there is a pair of models to compare."""
    return plan.segments(study) and shown.has_pair(study)


def reads(study: Study) -> dict[str, Made]:
    """Photos, where their objects are, and what both models made of them."""
    dataset = shown.dataset(study)
    objects = inputs.truth(study, dataset)
    return inputs.photos(dataset) | objects | shown.of_pair(study, "segment", "segments")


def draw(study: Study) -> look.Figure:
    """What both models make of the same episodes."""
    from bgbias.study.album import of_dataset

    facts, album = shown.album(study)
    photos = album.evaluation(album.table("test"), set(), "test")
    read, segments = reads(study), {}
    for cell in shown.pair(study):
        with np.load(read[f"segments {cell.name}"].path(study), allow_pickle=False) as file:
            segments[cell.method] = {name: file[name] for name in file.files}
    drawn = next(iter(segments.values()))
    truth = of_dataset(
        study, shown.dataset(study), album, drawn["ids"].tolist(), facts.resize, facts.input_size
    )
    return figure_segmentation(
        [
            SegmentedPhoto(
                photos.clean(str(name)),
                photos.clean(str(drawn["supports"][row])),
                truth.shown(str(name)),
                {method: s["maps"][row].astype(np.float32) for method, s in segments.items()},
                {method: s["masks"][row] for method, s in segments.items()},
                {method: truth.iou(str(name), s["masks"][row]) for method, s in segments.items()},
            )
            for row, name in enumerate(drawn["ids"])
        ]
    )


@dataclass(frozen=True)
class SegmentedPhoto:
    """A test photo and its support, uint8 [S, S, 3]; the true object, bool [S, S]; and for each method the map in 0..1, the mask
    that GrabCut made of it (bool), both [S, S], and its IoU with the truth.
    """

    photo: np.ndarray
    support: np.ndarray
    truth: np.ndarray
    maps: Mapping[str, np.ndarray]
    masks: Mapping[str, np.ndarray]
    ious: Mapping[str, float]


def figure_segmentation(examples: Sequence[SegmentedPhoto]) -> look.Figure:
    """A row an episode: the support, the photo with the outline of its object, then a map and a mask for each method.

    Beside the mask the photo is dimmed; the true outline is drawn into every picture of the photo.
    """
    methods = list(examples[0].maps)
    columns = 2 + 2 * len(methods)
    width = 2 * MARGIN + columns * SIDE + (columns - 1) * GAP
    height = HEAD + len(examples) * (SIDE + GAP) + FOOT
    with look.style():
        figure = look.blank(width, height)
        for line, example in enumerate(examples):
            top = HEAD + line * (SIDE + GAP)
            row = [look.panel(figure, MARGIN + c * (SIDE + GAP), top, SIDE, SIDE) for c in range(columns)]
            look.photo(row[0], example.support)
            look.photo(row[1], example.photo)
            _outline(row[1], example.truth)
            for place, method in enumerate(methods):
                seen, cut = row[2 + 2 * place : 4 + 2 * place]
                look.photo(seen, overlay(example.photo, example.maps[method]))
                look.photo(cut, _lit(example.photo, example.masks[method]))
                number(cut, example.ious[method], look.colour(method))
                for axes in (seen, cut):
                    _outline(axes, example.truth)
            if line == 0:
                _heads(row, methods)
        scale(figure, width, height - FOOT + 0.03, "number: intersection over union      attention: none")
    return figure


def _heads(row: Sequence[look.Axes], methods: Sequence[str]) -> None:
    words = [("Support", contact_sheet.INK), ("Photo", contact_sheet.INK)]
    for method in methods:
        words += [(names.method(method), look.colour(method)), ("its GrabCut", look.colour(method))]
    for axes, (word, colour) in zip(row, words, strict=True):
        axes.set_title(word, loc="center", pad=4, color=colour)


def _lit(photo: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """The photo with all but the mask dimmed."""
    return photo / 255 * np.where(mask, 1.0, 0.3)[..., None]


def _outline(axes: look.Axes, truth: np.ndarray) -> None:
    if truth.any() and not truth.all():
        axes.contour(truth.astype(float), levels=[0.5], colors=["white"], linewidths=[0.9])
