"""What a class means for the queries of all others: MAP@R with and without its photos in the gallery.

A study of other classes would have another gallery, too. So the jackknife over classes takes a class away from both
(``results.uncertainty``), as that of a U-statistic does (Arvesen, Jackknifing U-statistics, Ann. Math. Statist. 1969).
"""

import numpy as np

from bgbias.evaluation.metrics import map_at_r
from bgbias.evaluation.retrieval import BLOCK, Neighbours


def deep_enough(labels: np.ndarray) -> int:
    """How many neighbours a query needs, so that R are left without any one class."""
    sizes = np.unique(labels, return_counts=True)[1]
    return 2 * int(sizes.max(initial=0))


def change_for_others(ranked: Neighbours, labels: np.ndarray, counted: np.ndarray) -> np.ndarray:
    """By how much the MAP@R of the other classes' ``counted`` queries together would change without a query's class, shared out
    evenly among the counted queries of that class: float64 [N], NaN for queries that do not count.

    ``ranked``: all N queries in a gallery of the same photos with these ``labels`` [N], with ``deep_enough`` neighbours. A query
    changes only by the classes among its first R neighbours.
    """
    classes, own, sizes = np.unique(labels[counted], return_inverse=True, return_counts=True)
    _, place = np.unique(labels, return_inverse=True)
    near = np.where(ranked.indices >= 0, place[ranked.indices], -1)
    before = map_at_r.per_query(ranked)
    first = np.arange(near.shape[1]) < ranked.relevant[:, None]
    query, rank = np.nonzero(first & ~ranked.same_label & (near >= 0) & counted[:, None])
    number = int(place.max(initial=-1)) + 1
    pairs = np.unique(query * number + near[query, rank])
    deepest = int(ranked.relevant.max(initial=0))
    change = np.zeros(number)
    step = max(1, BLOCK // near.shape[1])
    for start in range(0, len(pairs), step):
        query, gone = np.divmod(pairs[start : start + step], number)
        some = Neighbours(ranked.same_label[query], ranked.relevant[query], ranked.indices[query])
        without = some.without(near[query] == gone[:, None], 0, deepest)
        change += np.bincount(gone, map_at_r.per_query(without) - before[query], number)
    shared = np.full(len(labels), np.nan)
    shared[counted] = (change[np.searchsorted(np.unique(labels), classes)] / sizes)[own]
    return shared
