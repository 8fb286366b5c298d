"""What each model shares a photo with another of its class by, and what GrabCut makes of it. The
object's true place is outlined; the number is the intersection over union: 1 is the object itself,
0 is elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bgbias.engine import inputs
from bgbias.images.contact_sheet import INK
from bgbias.report import look, names, sources
from bgbias.report.figures import _shown as shown
from bgbias.report.maps import number, outline, overlay, sheet
from bgbias.study import plan
from bgbias.study.params import Study

PLACE = 5
settings = shown.cut_by


def wanted(study: Study) -> bool:
    """Whether the grid asks for segmentation, and there is a pair of models to compare."""
    return plan.segments(study) and bool(shown.pair(study))


def reads(study: Study) -> sources.Sources:
    dataset = shown.dataset(study)
    seen = inputs.photos(dataset) | inputs.truth(study, dataset)
    return seen | sources.of_models(shown.pair(study), "segment", "segments")


def draw(study: Study) -> look.Figure:
    """What both models make of the same episodes."""
    from bgbias.study.truth import of_dataset

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
    heads = [("Support", INK), ("Photo", INK)]
    for method in methods:
        heads += [(names.method(method), look.ink(method)), ("its GrabCut", look.ink(method))]
    with look.style():
        words = "number: intersection over union      attention: none"
        figure, rows = sheet(heads, len(examples), words)
        for (support, photo, *others), example in zip(rows, examples, strict=True):
            look.photo(support, example.support)
            look.photo(photo, example.photo)
            for seen, cut, method in zip(others[::2], others[1::2], methods, strict=True):
                look.photo(seen, overlay(example.photo, example.maps[method]))
                look.photo(cut, example.photo / 255 * np.where(example.masks[method], 1.0, 0.3)[..., None])
                number(cut, example.ious[method], look.ink(method))
            for axes in (photo, *others):
                outline(axes, example.truth.astype(float), 0.9)
    return figure
