"""What each model shares a photo with another of its class by, and what GrabCut makes of it. The
object's true place is outlined; the number is the intersection over union: 1 is the object itself,
0 is elsewhere.
"""

from __future__ import annotations

import numpy as np

from bgbias.engine import inputs
from bgbias.images.contact_sheet import INK
from bgbias.report import look, names, sources
from bgbias.report.figures import _shown as shown
from bgbias.report.maps import Picture, overlay, sheet
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
    """A row an episode: the support, the photo, then a map and what GrabCut made of it for each method."""
    _, album = shown.album(study)
    photos = album.evaluation(album.table("test"), set(), "test")
    read, segments = reads(study), {}
    for cell in shown.pair(study):
        with np.load(read[f"segments {cell.name}"].path(study), allow_pickle=False) as file:
            segments[cell.method] = {name: file[name] for name in file.files}
    heads = [("Support", INK), ("Photo", INK)]
    for method in segments:
        heads += [(names.method(method), look.ink(method)), ("its GrabCut", look.ink(method))]
    drawn = next(iter(segments.values()))
    truth = album.objects(drawn["ids"].tolist())
    rows = []
    for row, name in enumerate(drawn["ids"].astype(str)):
        photo, outline = photos.clean(name), truth.shown(name).astype(float)
        pictures = [Picture(photos.clean(str(drawn["supports"][row]))), Picture(photo, outline, 0.9)]
        for method, of in segments.items():
            mask, colour = of["masks"][row], look.ink(method)
            dimmed = photo / 255 * np.where(mask, 1.0, 0.3)[..., None]
            pictures += [
                Picture(overlay(photo, of["maps"][row].astype(np.float32)), outline, 0.9),
                Picture(dimmed, outline, 0.9, truth.iou(name, mask), colour),
            ]
        rows.append(pictures)
    return sheet(heads, rows, "number: intersection over union      attention: none")
