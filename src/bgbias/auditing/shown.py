"""What an audit shows a person: queries, a photo of each class, and the masks that the masker was least sure of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from bgbias.auditing.findings import Findings, without_common_folder
from bgbias.auditing.prepared import Prepared
from bgbias.evaluation.embeddings import Embeddings
from bgbias.evaluation.photos import EvaluationPhotos
from bgbias.report import queries as asking
from bgbias.report.queries import AskedModel, ShownQuery

MASKS = 8


@dataclass(frozen=True)
class DoubtfulMask:
    """A photo uint8 [S, S, 3] with its mask uint8 [S, S], and how sure the masker was."""

    image_id: str
    confidence: float
    photo: np.ndarray
    mask: np.ndarray


def doubtful(prepared: Prepared) -> tuple[DoubtfulMask, ...]:
    """Those that the masker was least sure of; none where it tells nothing or somebody drew them."""
    sure = prepared.qualities.dropna(subset=["confidence"])
    least = sure[sure["confidence"] < 1].sort_values(["confidence", "image_id"]).head(MASKS)
    photos, masks = prepared.photos, prepared.masks
    return tuple(
        DoubtfulMask(i, float(confidence), photos.get(i), masks.get(i))
        for i, confidence in zip(least["image_id"], least["confidence"], strict=True)
    )


def portraits(found: Findings, photos: EvaluationPhotos) -> dict[str, str]:
    """A photo, as a page holds it, of each of the classes that lose most: the first of its queries by name."""
    queries = found.photos[found.photos["lost"].notna()].sort_values("image_id")
    first = queries.drop_duplicates("class_name").set_index("class_name")["image_id"]
    return asking.portraits({name: first[name] for name in found.classes["class_name"]}, photos)


def queries(
    found: Findings,
    photos: EvaluationPhotos,
    embeddings: Embeddings,
    names: Mapping[int, str],
    masks: pd.DataFrame,
) -> dict[str, list[ShownQuery]]:
    """The queries that lose most, and some by lot (``report.queries.shown``); ``masks``: what is measured of them."""
    short = without_common_folder(names.values())
    model = AskedModel("", embeddings, found.photos.set_index("image_id"))
    return asking.shown(
        [model], photos, {label: short[name] for label, name in names.items()}, asking.unsure(masks)
    )
