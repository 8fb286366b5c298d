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
    split: QueryGallerySplit,
    backgrounds: Sequence[Backgrounds] = (),
) -> Iterator[tuple[slice, WholeRanking]]:
    """Blocks of queries [Q, d], which show the photos in ``rows`` [Q], with their rankings of ``gallery`` [N, d] of photos with
    these ``labels`` [N]; ``indices`` are places among these N. Photos that share a query's borrowed background are left out, too
    (``backgrounds`` as in ``exclusion.drop_shared``).
    """
    candidates = round_embeddings(gallery, "gallery").astype(np.float64).T
    rounded = round_embeddings(queries, "query")
    step = max(1, BLOCK // max(len(labels), 1))
    for start in range(0, len(rows), step):
        block = slice(start, start + step)
        shown_rows = rows[block]
        searched = split.searched(shown_rows, labels)
        for lender, in_gallery in backgrounds:
            searched &= lender[shown_rows, None] != in_gallery
        similarity = rounded[block].astype(np.float64) @ candidates
        yield block, rank_searched(similarity, searched, labels, shown_rows)


def rank_searched(
    similarity: np.ndarray, searched: np.ndarray, labels: np.ndarray, rows: np.ndarray
) -> WholeRanking:
    """Rankings, by similarity [Q, N], of the photos with these ``labels`` [N] among which each query is asked, bool [Q, N];
    queries are of the classes of the photos in ``rows`` [Q].
    """
    deepest = max(int(searched.sum(1).max(initial=0)), DEEPEST_CMC)
    indices = np.argsort(-np.where(searched, similarity, -np.inf), axis=1, kind="stable")[:, :deepest]
    there = np.take_along_axis(searched, indices, axis=1)
    if missing := deepest - indices.shape[1]:
        indices, there = (np.pad(a, ((0, 0), (0, missing))) for a in (indices, there))
    classes = np.where(there, labels[indices], -1)
    same = classes == labels[rows, None]
    return WholeRanking(same, same.sum(1), np.where(there, indices, -1), classes)


def first_ranks(
    queries: np.ndarray, rows: np.ndarray, gallery: np.ndarray, labels: np.ndarray, split: QueryGallerySplit
) -> Neighbours:
    """The neighbours of queries [Q, d], as ``rankings`` has them, deep enough for every metric of first ranks."""
    nearest = _make_room(len(rows), labels, split)
    for block, ranking in rankings(queries, rows, gallery, labels, split):
        keep_first(nearest, np.arange(len(rows))[block], ranking)
    return nearest


def rank_photos(
    queries: np.ndarray,
    gallery: np.ndarray,
    labels: np.ndarray,
    split: QueryGallerySplit,
    counted: np.ndarray,
    backgrounds: Sequence[Backgrounds] = (),
) -> tuple[Neighbours, dict[str, np.ndarray]]:
    """Each photo's first neighbours, as ``first_ranks`` has them, and each metric of its whole ranking, float64 [N].

    ``queries`` and ``gallery`` [N, d] show the same photos. Of those that are not ``counted`` [N] (queries that can be used)
    nothing is known: they have no neighbours and NaN. ``AP_OTHERS`` is among the metrics: what a query's class means for the
    average precision of others, shared out among those of its queries that have one.
    """
    rows, nearest = np.flatnonzero(counted), _make_room(len(labels), labels, split)
    names = metrics.names(whole=True)
    values = {name: np.full(len(labels), np.nan) for name in names}
    classes, class_of = np.unique(labels, return_inverse=True)
    change = np.zeros(len(classes))
    for block, ranking in rankings(queries[rows], rows, gallery, labels, split, backgrounds):
        for name in names:
            values[name][rows[block]] = plugins.load("metrics", name).per_query(ranking)
        change += _average_precision_without(ranking, class_of, len(classes))
        keep_first(nearest, rows[block], ranking)
    answered = rows[nearest.relevant[rows] > 0]
    sizes = np.bincount(class_of[answered], minlength=len(classes))
    shared = np.full(len(labels), np.nan)
    shared[answered] = (change / np.maximum(sizes, 1))[class_of[answered]]
    return nearest, values | {AP_OTHERS: shared}


def rank_among(
    queries: np.ndarray, gallery: np.ndarray, labels: np.ndarray, split: QueryGallerySplit | None = None
) -> Neighbours:
    """The neighbours of all N photos, seen as ``queries`` [N, d], among each other, seen as ``gallery`` [N, d]; where the dataset
    says who is asked, of those alone: all others have no neighbours.
    """
    if split is None:
        return neighbours(queries, labels, gallery, labels)
    rows, nearest = np.flatnonzero(split.query), _make_room(len(labels), labels, split)
    keep_first(nearest, rows, first_ranks(queries[rows], rows, gallery, labels, split))
    return nearest


def _make_room(number: int, labels: np.ndarray, split: QueryGallerySplit) -> Neighbours:
    """No neighbours yet, of so many queries; room for R without any class that is asked for, which distractors are not."""
    deep = deep_enough(labels[np.isin(labels, labels[split.query])])
    return Neighbours.none(number, max(deep, DEEPEST_FIXED_RANK))


def keep_first(nearest: Neighbours, rows: np.ndarray, ranking: Neighbours) -> None:
    """Fill in the first neighbours of some queries; ranks that a small gallery has not stay missing."""
    deep = min(nearest.indices.shape[1], ranking.indices.shape[1])
    nearest.same_label[rows, :deep] = ranking.same_label[:, :deep]
    nearest.indices[rows, :deep] = ranking.indices[:, :deep]
    nearest.relevant[rows] = ranking.relevant


def _average_precision_without(ranking: WholeRanking, class_of: np.ndarray, number: int) -> np.ndarray:
    """By how much the average precisions of these queries would change in sum without each of so many classes in the gallery,
    float64 [number]; of the query's own nothing is known. ``class_of`` [N]: the class of each photo.
    """
    change = np.zeros(number)
    for same, indices in zip(ranking.same_label, ranking.indices, strict=True):
        ranks = np.flatnonzero(same) + 1
        if not len(ranks):
            continue
        before = class_of[indices[: ranks[-1]]]
        query_class = before[-1]
        match = np.searchsorted(ranks, np.arange(1, ranks[-1] + 1))
        ahead = np.bincount(match * number + before, minlength=len(ranks) * number)
        ahead = ahead.reshape(len(ranks), number).cumsum(axis=0)
        ahead[:, query_class] = 0
        hits = np.arange(1, len(ranks) + 1)[:, None]
        change += (hits / (ranks[:, None] - ahead) - hits / ranks[:, None]).mean(axis=0)
    return change
