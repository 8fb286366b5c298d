"""Queries as a person is shown them: the photo, its object elsewhere, and what either finds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bgbias.auditing.findings import Findings, without_common_folder
from bgbias.auditing.prepared import Prepared
from bgbias.evaluation.conditions import CLEAN, RANDOM_BACKGROUND
from bgbias.evaluation.embeddings import Embeddings
from bgbias.evaluation.photos import EvaluationPhotos
from bgbias.photos import subset
from bgbias.photos.table import ImageTable

QUERIES = 12  # of either kind
FOUND = 3  # photos that are found first
MASKS = 8
PORTRAITS = 60  # classes


@dataclass(frozen=True)
class FoundPhoto:
    """A photo that a query finds, uint8 [S, S, 3], and whether it is of the query's class."""

    class_name: str
    right: bool
    picture: np.ndarray


@dataclass(frozen=True)
class ShownQuery:
    """``photo`` and ``elsewhere`` (the first random background) uint8 [S, S, 3], ``mask`` uint8 [S, S]; ``clean`` and
    ``corrupted`` MAP@R in 0..1, the latter the mean over backgrounds; what either finds first, the nearest first.
    """

    image_id: str
    class_name: str
    clean: float
    corrupted: float
    photo: np.ndarray
    elsewhere: np.ndarray
    mask: np.ndarray
    found: tuple[FoundPhoto, ...]
    found_elsewhere: tuple[FoundPhoto, ...]


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


def portraits(found: Findings, photos: EvaluationPhotos) -> dict[str, np.ndarray]:
    """A photo uint8 [S, S, 3] of each of the classes that lose most, the first of its queries by name."""
    queries = found.photos[found.photos["lost"].notna()].sort_values("image_id")
    first = queries.drop_duplicates("class_name").set_index("class_name")["image_id"]
    return {name: photos.clean(first[name]) for name in found.classes["class_name"].head(PORTRAITS)}


def queries(
    found: Findings, photos: EvaluationPhotos, embeddings: Embeddings, names: Mapping[int, str]
) -> dict[str, list[ShownQuery]]:
    """``worst``: the queries that lose most; ``random``: a keyed choice of all, against cherry-picking."""
    short = without_common_folder(names.values())
    names = {label: short[name] for label, name in names.items()}
    asked = found.photos[found.photos["lost"].notna()].set_index("image_id")
    worst = asked.reset_index().sort_values(["lost", "image_id"], ascending=[False, True])["image_id"]
    of_queries = photos.table.frame[photos.table.frame["image_id"].isin(asked.index)]
    by_lot = subset.keyed(ImageTable(of_queries.reset_index(drop=True)), "audit sheet", QUERIES).ids
    levels = {i: (float(a), float(b)) for i, a, b in asked[[CLEAN, RANDOM_BACKGROUND]].itertuples()}

    def shown(ids: Sequence[str]) -> list[ShownQuery]:
        return [_query(i, levels[i], photos, embeddings, names) for i in ids]

    return {"worst": shown(worst[:QUERIES].tolist()), "random": shown(by_lot)}


def _query(
    image_id: str,
    levels: tuple[float, float],
    photos: EvaluationPhotos,
    embeddings: Embeddings,
    names: Mapping[int, str],
) -> ShownQuery:
    row = embeddings.ids.index(image_id)
    own = int(embeddings.labels[row])
    gallery = np.asarray(embeddings.views[CLEAN, 0])

    def finds(condition: str) -> tuple[FoundPhoto, ...]:
        near = gallery @ embeddings.views[condition, 0][row]
        near[row] = -np.inf
        first = np.argsort(-near, kind="stable")[: min(FOUND, len(near) - 1)]
        labels = [int(embeddings.labels[i]) for i in first]
        return tuple(
            FoundPhoto(names[label], label == own, photos.clean(embeddings.ids[i]))
            for i, label in zip(first, labels, strict=True)
        )

    return ShownQuery(
        image_id,
        names[own],
        *levels,
        photos.clean(image_id),
        next(photos.views([(RANDOM_BACKGROUND, 0)], rows=range(row, row + 1))),
        photos.mask(image_id),
        finds(CLEAN),
        finds(RANDOM_BACKGROUND),
    )
