"""Rankings without the photos that share a query's borrowed background: they would be found by the background alone.

Where photos lend each other their surroundings (conditions ``mixed_*``), the photo that lent the query its own is in the clean
gallery, perhaps with copies of it; and among photos on borrowed backgrounds, two may have borrowed from the same one. Such photos
are right answers under mixed_same and wrong ones under mixed_rand: left in, a model that knows nothing of classes would seem to
lean on backgrounds.

Levels of two conditions compare only if both galleries lack the same photos: a photo fewer of the query's class changes MAP@R by
itself, most in small classes.
"""

from collections.abc import Sequence

import numpy as np

from bgbias.evaluation.retrieval import Neighbours

Backgrounds = tuple[np.ndarray, np.ndarray]
"""Whose background each of N photos is on as a query, and whose in the gallery: rows int64 [N] each, of copies the first one."""


def without_shared(
    ranked: Neighbours, labels: np.ndarray, backgrounds: Sequence[Backgrounds], depth: int
) -> Neighbours:
    """``ranked`` down to rank ``depth`` without the photos that share a background with the query, in any of ``backgrounds``.

    ``ranked``: all N queries in a gallery of the same photos with these ``labels`` [N], deeper by as many ranks as a query may
    lose. Several ``backgrounds`` are of one gallery. Fewer photos are relevant where some of the query's class are left out.
    """
    shared, fewer = np.zeros(ranked.indices.shape, bool), np.zeros(len(labels), np.int64)
    for number, (lender, in_gallery) in enumerate(backgrounds):
        shared |= in_gallery[ranked.indices] == lender[:, None]
        again = np.any([lender == before for before, _ in backgrounds[:number]], axis=0)
        fewer += np.where(again, 0, _of_class(labels, lender, in_gallery))
    return ranked.without(shared & (ranked.indices >= 0), fewer, depth)


def _of_class(labels: np.ndarray, lender: np.ndarray, in_gallery: np.ndarray) -> np.ndarray:
    """How many other photos of each query's class are on its background, int64 [N]."""
    number = np.unique(labels, return_inverse=True)[1] * len(labels)
    keys, sizes = np.unique(number + in_gallery, return_counts=True)
    place = np.searchsorted(keys, number + lender).clip(max=len(keys) - 1)
    return np.where(keys[place] == number + lender, sizes[place], 0) - (lender == in_gallery)
