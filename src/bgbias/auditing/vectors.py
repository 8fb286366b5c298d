"""Embeddings that cannot be a working model's, or that are not in the photos' order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from bgbias.errors import UserError
from bgbias.evaluation.conditions import CLEAN, RANDOM_BACKGROUND, View
from bgbias.evaluation.retrieval import neighbours

# A photo's views that show its own object on other backgrounds: where one finds its photo, the others do.
ON_OTHERS = (RANDOM_BACKGROUND, "mixed_same", "mixed_rand")
# Of photos in a random order one is nearest to itself in the mean, and more than so many in one case of a thousand (Poisson).
MOST_BY_CHANCE = 5
FEWEST = 20  # photos of which so few can be told from all
MOST_ALIKE = 0.5  # of the photos may share one vector


def equal_vectors(vectors: np.ndarray) -> int:
    """How many of the embeddings [N, D] are also another photo's."""
    counts = np.unique(vectors, axis=0, return_counts=True)[1]
    return int(counts[counts > 1].sum())


def refuse_constant(vectors: np.ndarray, name: str) -> None:
    """Refuse a model that gives many photos one and the same vector [N, D]: no background can change what it finds."""
    most = int(np.unique(vectors, axis=0, return_counts=True)[1].max())
    if most > max(1, MOST_ALIKE * len(vectors)):
        raise UserError(
            f"{name} gives {most} of {len(vectors)} photos the same embedding, so that it cannot tell them apart. Check its"
            " weights, the layer that is taken, and the preparation of photos (--mean, --std, --size)."
        )


def refuse_another_order(vectors: Mapping[View, np.ndarray], ids: Sequence[str]) -> None:
    """Refuse embeddings [N, D] by view whose rows are not the same photos: a photo's own views are nearest to it far more often
    than chance. ``ids`` [N]: the photos in their order.
    """
    if len(ids) < FEWEST:
        return
    clean = vectors[CLEAN, 0]
    rows = np.arange(len(ids))
    own = {
        view: neighbours(array, rows, clean, rows, k=1, exclude_self=False).indices[:, 0]
        for view, array in vectors.items()
        if view[0] != CLEAN
    }
    hits = {view: int((nearest == rows).sum()) for view, nearest in own.items()}
    alike = [hits[view] for view in hits if view[0] in ON_OTHERS]
    for view, nearest in own.items():
        pasted = view[0] in ON_OTHERS and max(alike) > 4 * MOST_BY_CHANCE
        if hits[view] <= MOST_BY_CHANCE and (view[0] == "own_inpainted" or pasted):
            row = int(np.flatnonzero(nearest != rows)[0])
            raise UserError(
                f"The embeddings of {CLEAN}-0 and {view[0]}-{view[1]} are not of the same photos in the same order:"
                f" {hits[view]} of {len(ids)} photos are nearest to themselves, as many as by chance. The first that is not:"
                f" {ids[row]}, whose nearest is {ids[nearest[row]]}. Embed each folder in the order of photos.csv."
            )
