"""Figures of where a pair of models looks: maps over photos, as ``report.sheets`` draws them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bgbias.engine import inputs
from bgbias.images.contact_sheet import INK
from bgbias.report import names, sources, style
from bgbias.report.figures import _subject as subject
from bgbias.report.sheets import Outline, Picture, enlarge, format_score, overlay, sheet
from bgbias.results.rows import read_csv
from bgbias.study import plan
from bgbias.study.params import Study

PHOTOS = 4  # of the figure of attribution


def _attribution(study: Study) -> sources.Sources:
    maps = inputs.of_models(subject.pair(study), "attribute", "maps", "attribution")
    return subject.corrupted(study) | maps


def draw_attribution(study: Study) -> style.Figure:
    photos = subject.evaluation(study)
    read = _attribution(study)
    maps, scores = {}, {}
    for cell in subject.pair(study):
        with np.load(read[f"maps {cell.name}"].path(study), allow_pickle=False) as file:
            maps[cell.method] = dict(zip(file["ids"].tolist(), file["ref"], strict=True))
        frame = read_csv(read[f"attribution {cell.name}"].path(study), dtype={"image_id": str})
        scores[cell.method] = frame[frame["variant"] == "ref"].set_index("image_id")["score"].to_dict()
    ids = [i for i in maps["plain"] if all(i in m for m in maps.values())][:PHOTOS]
    rows = []
    for i in ids:
        of_photo = {method: by_id[i].astype(np.float32) for method, by_id in maps.items()}
        rows.append(
            pictures(photos.clean(i), photos.mask(i), of_photo, {m: float(s[i]) for m, s in scores.items()})
        )
    return figure_attribution(list(maps), rows)


def figure_attribution(methods: Sequence[str], rows: Sequence[Sequence[Picture]]) -> style.Figure:
    """A row of ``pictures`` a photo: the photo, the object's outline, then one map a method with its attribution score.

    Bright pixels move the embedding most; the outline of the object is drawn into every map.
    """
    heads = [("Photo", INK), ("Object", INK), *((names.method(m), style.ink(m)) for m in methods)]
    return sheet(rows, heads, scale="attribution (number: its score)")


def pictures(
    photo: np.ndarray, mask: np.ndarray, maps: Mapping[str, np.ndarray], scores: Mapping[str, float]
) -> list[Picture]:
    """Of a photo uint8 [H, W, 3] as the model saw it, its soft mask [h, w] (uint8, or float in 0..1), and for each method an
    attribution map [h, w] in 0..1 and its score (NaN: none).
    """
    soft = np.asarray(mask, dtype=np.float64)
    alpha = enlarge(soft / 255 if mask.dtype == np.uint8 else soft, photo)
    around = Outline(alpha)
    # Everything around the object is dimmed.
    lit = np.clip(photo / 255 * (0.3 + 0.7 * alpha[..., None]), 0, 1)
    scored = (
        Picture(overlay(photo, heat), (around,), format_score(scores[method]), style.ink(method))
        for method, heat in maps.items()
    )
    return [Picture(photo), Picture(lit, (Outline(alpha, 1.2),)), *scored]


def _segmentation(study: Study) -> sources.Sources:
    dataset = subject.dataset(study)
    files = inputs.photos(dataset) | inputs.truth(study, dataset)
    return files | inputs.of_models(subject.pair(study), "segment", "segments")


def draw_segmentation(study: Study) -> style.Figure:
    """A row an episode: the support, the photo, then a map and what GrabCut made of it for each method."""
    album = subject.album(study)
    photos = album.evaluation(album.table("test"), set(), "test")
    read, segments = _segmentation(study), {}
    for cell in subject.pair(study):
        with np.load(read[f"segments {cell.name}"].path(study), allow_pickle=False) as file:
            segments[cell.method] = {name: file[name] for name in file.files}
    heads = [("Support", INK), ("Photo", INK)]
    for method in segments:
        heads += [(names.method(method), style.ink(method)), ("its GrabCut", style.ink(method))]
    drawn = next(iter(segments.values()))
    truth = album.objects(drawn["ids"].tolist())
    rows = []
    for row, name in enumerate(drawn["ids"].astype(str)):
        photo, outlines = photos.clean(name), (Outline(truth.locate(name).astype(float), 0.9),)
        pictures = [Picture(photos.clean(str(drawn["supports"][row]))), Picture(photo, outlines)]
        for method, arrays in segments.items():
            mask, colour = arrays["masks"][row], style.ink(method)
            dimmed = photo / 255 * np.where(mask, 1.0, 0.3)[..., None]
            pictures += [
                Picture(overlay(photo, arrays["maps"][row].astype(np.float32)), outlines),
                Picture(dimmed, outlines, format_score(truth.iou(name, mask)), colour),
            ]
        rows.append(pictures)
    return sheet(rows, heads, scale="attention (number: intersection over union)")


MEMBERS: dict[str, dict[str, Any]] = {
    "attribution": {
        "__doc__": """How much each place of a photo moves each model's embedding, by its gradients: the brighter, the
        more. The object is outlined; the number is the attribution score. Good: bright on the object; bad:
        bright on what stands around it.

        Figure 2 of Kobs & Hotho (2022); docs/methods.md, section 3.""",
        "PLACE": 4,
        "wanted": subject.pair,
        "reads": _attribution,
        "settings": subject.settings,
        "draw": draw_attribution,
    },
    "segmentation": {
        "__doc__": """What each model shares a photo with another of its class by, and what GrabCut makes of it. The
        object's true place is outlined; the number is the intersection over union: 1 is the object itself,
        0 is elsewhere.""",
        "PLACE": 5,
        "wanted": lambda study: plan.segments(study) and bool(subject.pair(study)),
        "reads": _segmentation,
        "settings": subject.cut_by,
        "draw": draw_segmentation,
    },
}
