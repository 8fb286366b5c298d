"""Queries as a page shows them: the photo with its mask, its object elsewhere, and what each model finds first for either."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from bgbias.evaluation.conditions import CLEAN, RANDOM_BACKGROUND
from bgbias.evaluation.embeddings import Embeddings
from bgbias.evaluation.photos import EvaluationPhotos
from bgbias.photos.query_gallery import QueryGallerySplit
from bgbias.report.html import inside

QUERIES = 12  # of either kind
FOUND = 3  # photos that are found first
PORTRAITS = 60  # classes
UNSURE = 0.85  # a mask of less clarity: most of these are wrong (docs/masks.md)
LOT = "audit sheet"  # what the random ones are drawn for, wherever they are shown
PORTRAIT = 56  # pixels


@dataclass(frozen=True)
class AskedModel:
    """A model that is shown queries: its embeddings of the photos, and what each query finds by image id (MAP@R in 0..1 where
    it is printed), a column for each of ``clean`` and ``random_background``, in the gallery of original photos. ``title``
    tells it from others.
    """

    title: str
    embeddings: Embeddings
    levels: pd.DataFrame


@dataclass(frozen=True)
class FoundPhoto:
    """A photo that a query finds, uint8 [S, S, 3], and whether it is of the query's class."""

    class_name: str
    right: bool
    picture: np.ndarray


@dataclass(frozen=True)
class Answer:
    """What a model makes of a query: MAP@R in 0..1, ``corrupted`` the mean over backgrounds, and what the query finds first, the
    nearest first, on its own and on the first random background.
    """

    title: str
    clean: float
    corrupted: float
    found: tuple[FoundPhoto, ...]
    found_elsewhere: tuple[FoundPhoto, ...]


@dataclass(frozen=True)
class ShownQuery:
    """``photo`` and ``elsewhere`` (the first random background) uint8 [S, S, 3], ``mask`` uint8 [S, S]; an answer a model."""

    image_id: str
    class_name: str
    photo: np.ndarray
    elsewhere: np.ndarray
    mask: np.ndarray
    answers: tuple[Answer, ...]


def select_example_queries(
    models: Sequence[AskedModel],
    photos: EvaluationPhotos,
    names: Mapping[int, str],
    unsure: Collection[str],
    count: int = QUERIES,
) -> dict[str, list[ShownQuery]]:
    """``worst``: so many queries on which the first model loses most, none that loses nothing; ``doubtful``: the same of those
    whose masks are ``unsure``, which are no part of the worst; ``random``: as many of all at random, against cherry-picking.
    ``names`` are those of the classes by number.
    """
    levels = models[0].levels
    lost = (levels[CLEAN] - levels[RANDOM_BACKGROUND]).dropna().sort_index()
    lost = lost.sort_values(ascending=False, kind="stable")
    losing = lost.index[lost > 0]
    doubtful = losing.isin(list(unsure))
    of_queries = photos.table.rows(photos.table.frame["image_id"].isin(lost.index))
    kinds: dict[str, Sequence[str]] = {
        "worst": list(losing[~doubtful][:count]),
        "doubtful": list(losing[doubtful][:count]),
        "random": of_queries.keyed(LOT, count).ids,
    }
    return {
        kind: [show(image_id, models, photos, names) for image_id in ids]
        for kind, ids in kinds.items()
        if len(ids)
    }


def unsure(masks: pd.DataFrame) -> frozenset[str]:
    """The photos whose masks have a ``clarity`` below ``UNSURE``; drawn masks have none, and are sure."""
    return frozenset(masks.loc[masks["clarity"] < UNSURE, "image_id"])


def show(
    image_id: str,
    models: Sequence[AskedModel],
    photos: EvaluationPhotos,
    names: Mapping[int, str],
    count: int = FOUND,
) -> ShownQuery:
    """A query with the first ``count`` photos that each model finds for it."""
    row = photos.table.ids.index(image_id)
    return ShownQuery(
        image_id,
        names[int(photos.table.labels[row])],
        photos.clean(image_id),
        next(photos.views([(RANDOM_BACKGROUND, 0)], rows=range(row, row + 1))),
        photos.mask(image_id),
        tuple(_answer(model, image_id, photos, names, count) for model in models),
    )


def _answer(
    model: AskedModel, image_id: str, photos: EvaluationPhotos, names: Mapping[int, str], count: int
) -> Answer:
    embeddings, labels = model.embeddings, model.embeddings.labels
    row = embeddings.ids.index(image_id)
    gallery = np.asarray(embeddings.views[CLEAN, 0])
    among = embeddings.given or QueryGallerySplit.all_among_all(len(gallery))

    def finds(condition: str) -> tuple[FoundPhoto, ...]:
        near = gallery @ embeddings.views[condition, 0][row]
        searched = among.searched(np.array([row]), labels)[0]
        near[~searched] = -np.inf
        first = np.argsort(-near, kind="stable")[: min(count, int(searched.sum()))]
        return tuple(
            FoundPhoto(names[int(labels[i])], bool(labels[i] == labels[row]), photos.clean(embeddings.ids[i]))
            for i in first
        )

    ((clean, corrupted),) = model.levels.loc[[image_id], [CLEAN, RANDOM_BACKGROUND]].to_numpy(float).tolist()
    return Answer(model.title, clean, corrupted, finds(CLEAN), finds(RANDOM_BACKGROUND))


def portraits(first: Mapping[str, str], photos: EvaluationPhotos) -> dict[str, str]:
    """Of the first classes, each with the name of a photo, that photo as a page holds it."""
    return {name: inside(photos.clean(first[name]), PORTRAIT) for name in list(first)[:PORTRAITS]}
