"""Rankings without some photos: those of a class, and those that share a query's borrowed background.

What a class means for the queries of all others is MAP@R with and without its photos in the gallery. A study of other classes
would have another gallery, too. So the jackknife over classes takes a class away from both (``results.uncertainty``), as that of
a U-statistic does (Arvesen, Jackknifing U-statistics, Ann. Math. Statist. 1969).

Where photos lend each other their surroundings (conditions ``mixed_*``), the photo that lent the query its own is in the clean
gallery, perhaps with copies of it; and among photos on borrowed backgrounds, two may have borrowed from the same one. They would
be found by the background alone. Such photos are right answers under mixed_same and wrong ones under mixed_rand: left in, a model
that knows nothing of classes would seem to lean on backgrounds.

Levels of two conditions compare only if both galleries lack the same photos: a photo fewer of the query's class changes MAP@R by
itself, most in small classes.
"""

from collections.abc import Sequence

import numpy as np

from bgbias.evaluation.metrics import map_at_r
from bgbias.evaluation.retrieval import BLOCK, Neighbours, count_equal

Backgrounds = tuple[np.ndarray, np.ndarray]
"""Whose background each of N photos is on as a query, and whose in the gallery: rows int64 [N] each, of copies the first one."""


def deep_enough(labels: np.ndarray) -> int:
    """How many neighbours a query needs, so that R are left without any one class."""
    sizes = np.unique(labels, return_counts=True)[1]
    return 2 * int(sizes.max(initial=0))


def change_for_others(ranked: Neighbours, labels: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """By how much the MAP@R of the other classes' queries together would change without a query's class, shared out evenly among
    the queries of that class: float64 [N]. ``weights`` [N]: how much each query counts; of those that do not (0) it is NaN.

    ``ranked``: all N queries in a gallery of the same photos with these ``labels`` [N], with ``deep_enough`` neighbours. A query
    changes only by the classes among its first R neighbours.
    """
    counted = weights > 0
    _, index, sizes = np.unique(labels[counted], return_inverse=True, return_counts=True)
    _, class_of = np.unique(labels, return_inverse=True)
    near = np.where(ranked.indices >= 0, class_of[ranked.indices], -1)
    before = map_at_r.per_query(ranked)
    first = np.arange(near.shape[1]) < ranked.relevant[:, None]
    query, rank = np.nonzero(first & ~ranked.same_label & (near >= 0) & counted[:, None])
    number = int(class_of.max(initial=-1)) + 1
    pairs = np.unique(query * number + near[query, rank])
    deepest = int(ranked.relevant.max(initial=0))
    change = np.zeros(number)
    step = max(1, BLOCK // near.shape[1])
    for start in range(0, len(pairs), step):
        query, gone = np.divmod(pairs[start : start + step], number)
        part = Neighbours(ranked.same_label[query], ranked.relevant[query], ranked.indices[query])
        without = part.without(near[query] == gone[:, None], 0, deepest)
        changed = map_at_r.per_query(without) - before[query]
        change += np.bincount(gone, weights[query] * changed, number)
    shared = np.full(len(labels), np.nan)
    shared[counted] = change[class_of[counted]] / sizes[index]
    return shared


def drop_shared(
    ranked: Neighbours, labels: np.ndarray, backgrounds: Sequence[Backgrounds], depth: int
) -> Neighbours:
    """``ranked`` down to rank ``depth`` without the photos that share a background with the query, in any of ``backgrounds``.

    ``ranked``: all N queries in a gallery of the same photos with these ``labels`` [N], deeper by as many ranks as a query may
    lose. Several ``backgrounds`` are of one gallery. Fewer photos are relevant where some of the query's class are left out.
    """
    shared, fewer = np.zeros(ranked.indices.shape, bool), np.zeros(len(labels), np.int64)
    of_class = np.unique(labels, return_inverse=True)[1] * len(labels)
    for number, (lender, in_gallery) in enumerate(backgrounds):
        shared |= in_gallery[ranked.indices] == lender[:, None]
        again = np.any([lender == before for before, _ in backgrounds[:number]], axis=0)
        others = count_equal(of_class + lender, of_class + in_gallery) - (lender == in_gallery)
        fewer += np.where(again, 0, others)  # of the query's class and on its background
    return ranked.without(shared & (ranked.indices >= 0), fewer, depth)
