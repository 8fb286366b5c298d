"""Rankings where a dataset says who is asked among whom (``photos.query_gallery``): each query's whole gallery, exactly, equal
photos in the table's order.

Average precision and CMC speak of whole rankings (docs/methods.md, section 15); MAP@R of its first ranks. Similarity is that of
``evaluation.retrieval``, and every number here is the same on every machine as well.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from bgbias import plugins
from bgbias.evaluation import metrics
from bgbias.evaluation.exclusion import Backgrounds, deep_enough
from bgbias.evaluation.metrics import AP_OTHERS
from bgbias.evaluation.retrieval import BLOCK, DEEPEST_FIXED_RANK, Neighbours, neighbours, round_embeddings
from bgbias.photos.query_gallery import QueryGallerySplit

DEEPEST_CMC = 10


@dataclass(frozen=True)
class WholeRanking(Neighbours):
    """All that some queries are asked among, best first. ``labels`` int64 [N, K]: the classes of these photos, -1 where a query
    is asked among fewer than K.
    """

    labels: np.ndarray


def rankings(
    queries: np.ndarray,
    rows: np.ndarray,
    gallery: np.ndarray,
    labels: np.ndarray,
    given: QueryGallerySplit,
    backgrounds: Sequence[Backgrounds] = (),
) -> Iterator[tuple[slice, WholeRanking]]:
    """Blocks of queries [Q, d], which show the photos in ``rows`` [Q], with their rankings of ``gallery`` [N, d] of photos with
    these ``labels`` [N]; ``indices`` are places among these N. Photos that share a query's borrowed background are left out, too
    (``backgrounds`` as in ``exclusion.drop_shared``).
    """
    known, asked = (
        round_embeddings(gallery, "gallery").astype(np.float64).T,
        round_embeddings(queries, "query"),
    )
    step = max(1, BLOCK // max(len(labels), 1))
    for start in range(0, len(rows), step):
        block = slice(start, start + step)
        own = rows[block]
        searched = given.searched(own, labels)
        for lender, in_gallery in backgrounds:
            searched &= lender[own, None] != in_gallery
        similarity = np.where(searched, asked[block].astype(np.float64) @ known, -np.inf)
        deepest = max(int(searched.sum(1).max(initial=0)), DEEPEST_CMC)
        indices = np.argsort(-similarity, axis=1, kind="stable")[:, :deepest]
        there = np.take_along_axis(searched, indices, axis=1)
        if missing := deepest - indices.shape[1]:
            indices, there = (np.pad(a, ((0, 0), (0, missing))) for a in (indices, there))
        classes = np.where(there, labels[indices], -1)
        same = classes == labels[own, None]
        yield block, WholeRanking(same, same.sum(1), np.where(there, indices, -1), classes)


def first_ranks(
    queries: np.ndarray, rows: np.ndarray, gallery: np.ndarray, labels: np.ndarray, given: QueryGallerySplit
) -> Neighbours:
    """The neighbours of queries [Q, d], as ``rankings`` has them, deep enough for every metric of first ranks."""
    kept = _none(len(rows), labels, given)
    for block, ranking in rankings(queries, rows, gallery, labels, given):
        _keep(kept, np.arange(len(rows))[block], ranking)
    return kept


def rank_photos(
    queries: np.ndarray,
    gallery: np.ndarray,
    labels: np.ndarray,
    given: QueryGallerySplit,
    counted: np.ndarray,
    backgrounds: Sequence[Backgrounds] = (),
) -> tuple[Neighbours, dict[str, np.ndarray]]:
    """Each photo's first neighbours, as ``left_out`` takes them, and each metric of its whole ranking, float64 [N].

    ``queries`` and ``gallery`` [N, d] show the same photos. Of those that are not ``counted`` [N] (queries that can be used)
    nothing is told: they have no neighbours and NaN. ``AP_OTHERS`` is among the metrics: what a query's class means for the
    average precision of others.
    """
    rows, kept = np.flatnonzero(counted), _none(len(labels), labels, given)
    names = metrics.names(whole=True)
    values = {name: np.full(len(labels), np.nan) for name in names}
    classes, place = np.unique(labels, return_inverse=True)
    change = np.zeros(len(classes))
    for block, ranking in rankings(queries[rows], rows, gallery, labels, given, backgrounds):
        for name in names:
            values[name][rows[block]] = plugins.load("metrics", name).per_query(ranking)
        change += _average_precision_without(ranking, place, len(classes))
        _keep(kept, rows[block], ranking)
    sizes = np.bincount(place[rows], minlength=len(classes))
    shared = np.full(len(labels), np.nan)
    shared[rows] = (change / np.maximum(sizes, 1))[place[rows]]
    return kept, values | {AP_OTHERS: shared}


def rank_among(
    queries: np.ndarray, gallery: np.ndarray, labels: np.ndarray, given: QueryGallerySplit | None = None
) -> Neighbours:
    """The neighbours of all N photos, seen as ``queries`` [N, d], among each other, seen as ``gallery`` [N, d]; where the dataset
    says who is asked, of those alone: all others have no neighbours.
    """
    if given is None:
        return neighbours(queries, labels, gallery, labels)
    rows, kept = np.flatnonzero(given.query), _none(len(labels), labels, given)
    _keep(kept, rows, first_ranks(queries[rows], rows, gallery, labels, given))
    return kept


def _none(number: int, labels: np.ndarray, given: QueryGallerySplit) -> Neighbours:
    """No neighbours yet, of so many queries; room for R without any class that is asked for, which distractors are not."""
    deep = deep_enough(labels[np.isin(labels, labels[given.query])])
    return Neighbours.none(number, max(deep, DEEPEST_FIXED_RANK))


def _keep(kept: Neighbours, rows: np.ndarray, ranking: Neighbours) -> None:
    """Fill in the first neighbours of some queries; ranks that a small gallery has not stay missing."""
    deep = min(kept.indices.shape[1], ranking.indices.shape[1])
    kept.same_label[rows, :deep] = ranking.same_label[:, :deep]
    kept.indices[rows, :deep] = ranking.indices[:, :deep]
    kept.relevant[rows] = ranking.relevant


def _average_precision_without(ranking: WholeRanking, place: np.ndarray, number: int) -> np.ndarray:
    """By how much the average precisions of these queries would change in sum without each of so many classes in the gallery,
    float64 [number]; of the query's own nothing is told. ``place`` [N]: the class of each photo.
    """
    change = np.zeros(number)
    for same, indices in zip(ranking.same_label, ranking.indices, strict=True):
        ranks = np.flatnonzero(same) + 1
        if not len(ranks):
            continue
        before = place[indices[: ranks[-1]]]
        own = before[-1]
        match = np.searchsorted(ranks, np.arange(1, ranks[-1] + 1))
        ahead = np.bincount(match * number + before, minlength=len(ranks) * number)
        ahead = ahead.reshape(len(ranks), number).cumsum(axis=0)
        ahead[:, own] = 0
        hits = np.arange(1, len(ranks) + 1)[:, None]
        change += (hits / (ranks[:, None] - ahead) - hits / ranks[:, None]).mean(axis=0)
    return change
