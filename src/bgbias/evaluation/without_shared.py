"""Rankings without the photos that share a query's borrowed background: they would be found by the background alone.

Where photos lend each other their surroundings (conditions ``mixed_*``), the photo that lent the query its own is in the clean
gallery; and among photos on borrowed backgrounds, two may have borrowed from the same one. Under mixed_same such photos are
right answers, under mixed_rand wrong ones: left in, a model that knows nothing of classes would seem to lean on backgrounds.

Levels of two conditions compare only if both galleries lack the same photos: a photo fewer of the query's class changes MAP@R by
itself, most in small classes.
"""

from __future__ import annotations

import numpy as np

from bgbias.evaluation.retrieval import Neighbours


def how_many(donors: np.ndarray, symmetric: bool) -> int:
    """How many neighbours a query may lose, by which it has to be ranked deeper; ``donors`` int64 [C, N] as in
    ``without_shared``.
    """
    if not symmetric:
        return len(donors)
    return max((int(np.unique(lender, return_counts=True)[1].max()) - 1 for lender in donors), default=0)


def without_shared(
    ranked: Neighbours, labels: np.ndarray, donors: np.ndarray, symmetric: bool, depth: int
) -> Neighbours:
    """``ranked`` down to rank ``depth`` without the photos that share a background with the query.

    ``ranked``: all N queries in a gallery of the same photos with these ``labels`` [N], ``how_many`` ranks deeper. ``donors``
    int64 [C, N]: for each of C conditions the row of the photo that lends its background to each. Left out are the lenders
    themselves or, if ``symmetric`` (C at most 1), the photos on the same background. Fewer photos are relevant where one of the
    query's class is left out.
    """
    shared, fewer = np.zeros(ranked.indices.shape, bool), np.zeros(len(labels), np.int64)
    for lender in donors:
        if symmetric:
            shared |= lender[ranked.indices] == lender[:, None]
            _, group, sizes = np.unique(
                np.stack([labels, lender]), axis=1, return_inverse=True, return_counts=True
            )
            fewer += sizes[group] - 1
        else:
            # Lenders of several conditions differ: one is of the query's class, the other is not.
            shared |= ranked.indices == lender[:, None]
            fewer += (labels[lender] == labels) & (lender != np.arange(len(lender)))
    left = np.argsort(shared & (ranked.indices >= 0), axis=1, kind="stable")[:, :depth]
    same, indices = (np.take_along_axis(a, left, axis=1) for a in (ranked.same_label, ranked.indices))
    return Neighbours(same, ranked.relevant - fewer, indices)
