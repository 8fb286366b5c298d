"""Rankings without the photos that stand in front of the very same surroundings as a query: they would be found by these alone.

Where photos lend each other their surroundings (conditions ``mixed_*``), the photo that lent the query its own stands in the
clean gallery, in front of them; and among their like, two photos may have borrowed from the same one. Of mixed_same such photos
are right answers, of mixed_rand wrong ones: left in, a model that knows nothing of classes would seem to lean on backgrounds.
"""

from __future__ import annotations

import numpy as np

from bgbias.evaluation.retrieval import Neighbours


def how_many(donors: np.ndarray, symmetric: bool) -> int:
    """How many neighbours a query may lose, by which it is to be ranked deeper."""
    return int(np.unique(donors, return_counts=True)[1].max(initial=1)) - 1 if symmetric else 1


def without_shared(ranked: Neighbours, labels: np.ndarray, donors: np.ndarray, symmetric: bool) -> Neighbours:
    """``ranked``: all N queries in a gallery of the same photos with these ``labels`` [N]; ``donors`` int64 [N]: the row of the
    photo whose surroundings each stands in front of. ``symmetric``: the gallery's photos stand there, too; else in front of their
    own. Gives ``how_many`` neighbours fewer; fewer are relevant where a photo of the query's class is left out.
    """
    lost = how_many(donors, symmetric)
    if not lost:
        return ranked
    there = ranked.indices >= 0
    if symmetric:
        shared = there & (donors[ranked.indices] == donors[:, None])
        pairs = np.stack([labels, donors])
        _, group, sizes = np.unique(pairs, axis=1, return_inverse=True, return_counts=True)
        fewer = sizes[group] - 1
    else:
        shared = there & (ranked.indices == donors[:, None])
        fewer = (labels[donors] == labels) & (donors != np.arange(len(donors)))
    kept = np.argsort(shared, axis=1, kind="stable")[:, : ranked.indices.shape[1] - lost]
    same, indices = (np.take_along_axis(a, kept, axis=1) for a in (ranked.same_label, ranked.indices))
    return Neighbours(same, ranked.relevant - fewer, indices)
