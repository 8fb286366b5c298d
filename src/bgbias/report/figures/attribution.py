"""How much each place of a photo moves each model's embedding, by its gradients: the brighter, the
more. The object is outlined; the number is the attribution score. Good: bright on the object; bad:
bright on what stands around it.

Figure 2 of Kobs & Hotho (2022); docs/methods.md, section 3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from bgbias.images.contact_sheet import INK
from bgbias.report import look, names, sources
from bgbias.report.figures import _shown as shown
from bgbias.report.maps import Picture, at_size, overlay, sheet
from bgbias.results.rows import read_csv
from bgbias.study.params import Study

PLACE = 4
wanted, settings = shown.pair, shown.settings
PHOTOS = 4


def reads(study: Study) -> sources.Sources:
    return shown.corrupted(study) | sources.of_models(shown.pair(study), "attribute", "maps", "attribution")


def draw(study: Study) -> look.Figure:
    photos = shown.evaluation(study)
    read = reads(study)
    maps, scores = {}, {}
    for cell in shown.pair(study):
        with np.load(read[f"maps {cell.name}"].path(study), allow_pickle=False) as file:
            maps[cell.method] = dict(zip(file["ids"].tolist(), file["ref"], strict=True))
        frame = read_csv(read[f"attribution {cell.name}"].path(study), dtype={"image_id": str})
        scores[cell.method] = frame[frame["variant"] == "ref"].set_index("image_id")["score"].to_dict()
    ids = [i for i in maps["plain"] if all(i in m for m in maps.values())][:PHOTOS]
    rows = []
    for i in ids:
        of_photo = {method: of[i].astype(np.float32) for method, of in maps.items()}
        rows.append(
            pictures(photos.clean(i), photos.mask(i), of_photo, {m: float(s[i]) for m, s in scores.items()})
        )
    return figure_attribution(list(maps), rows)


def figure_attribution(methods: Sequence[str], rows: Sequence[Sequence[Picture]]) -> look.Figure:
    """A row of ``pictures`` a photo: the photo, the object's outline, then one map a method with its attribution score.

    Bright pixels move the embedding most; the outline of the object is drawn into every map.
    """
    heads = [("Photo", INK), ("Object", INK), *((names.method(m), look.ink(m)) for m in methods)]
    return sheet(heads, rows, "number: attribution score      attribution: none")


def pictures(
    photo: np.ndarray, mask: np.ndarray, maps: Mapping[str, np.ndarray], scores: Mapping[str, float]
) -> list[Picture]:
    """Of a photo uint8 [H, W, 3] as the model saw it, its soft mask [h, w] (uint8, or float in 0..1), and for each method an
    attribution map [h, w] in 0..1 and its score (NaN: none).
    """
    soft = np.asarray(mask, dtype=np.float64)
    alpha = at_size(soft / 255 if mask.dtype == np.uint8 else soft, photo)
    inside = look.square(alpha)
    # Everything around the object is dimmed.
    lit = np.clip(photo / 255 * (0.3 + 0.7 * alpha[..., None]), 0, 1)
    scored = (
        Picture(overlay(photo, of), inside, 0.7, scores[method], look.ink(method))
        for method, of in maps.items()
    )
    return [Picture(photo), Picture(lit, inside, 1.2), *scored]
