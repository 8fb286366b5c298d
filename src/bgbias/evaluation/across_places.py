"""Retrieval within a place and across places, in galleries that hold as many photos of each class (docs/methods.md, section 16).

A query is asked among the photos of its own place, and among those of another one where its class was seen. Of each class the
side that has more is thinned out by lot to as many photos as the other one has: the two galleries differ by the place alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bgbias import plugins, seeds
from bgbias.evaluation.conditions import CLEAN, RANDOM_BACKGROUND, View
from bgbias.evaluation.embeddings import Embeddings
from bgbias.evaluation.exclusion import deep_enough
from bgbias.evaluation.retrieval import BLOCK, DEEPEST_FIXED_RANK, Neighbours, round_embeddings
from bgbias.photos.places import NOWHERE, Places

ORIGINAL = (CLEAN, "own_inpainted", RANDOM_BACKGROUND)
LENT = ("class_here", "class_there", "others_here", "others_there")
SAME_PLACE, OTHER_PLACE = "same_place", "other_place"
# The same without the photos that lend the query a background in any condition of the draw: such levels compare.
SAME_WITHOUT_LENDERS, OTHER_WITHOUT_LENDERS = "same_place_without_lenders", "other_place_without_lenders"
SETTINGS = {
    (SAME_PLACE, OTHER_PLACE): ORIGINAL,
    (SAME_WITHOUT_LENDERS, OTHER_WITHOUT_LENDERS): (*ORIGINAL, *LENT),
}
USUAL_DRAWS = 5  # of galleries, where no condition is drawn


def rankings(embeddings: Embeddings, gallery: np.ndarray) -> Iterator[tuple[str, View, list[Neighbours]]]:
    """For each setting and view of ``SETTINGS`` the neighbours of all N photos in ``gallery`` [N, D] of the same: one where the
    view is drawn, else one for each draw of galleries. Nothing without places.

    A query has none where its class is on one side alone, and on a background that nobody lent.
    """
    places = embeddings.places
    if places is None:
        return
    drawn = {name for name, _ in embeddings.views if plugins.load("conditions", name).DRAWS}
    draws = max((draw + 1 for name, draw in embeddings.views if name in drawn), default=USUAL_DRAWS)
    clean = round_embeddings(gallery, "gallery").astype(np.float64)
    for settings, conditions in SETTINGS.items():
        galleries = [_Galleries(embeddings, places, draw, conditions) for draw in range(draws)]
        for condition, draw in [view for view in embeddings.views if view[0] in conditions]:
            queries = round_embeddings(embeddings.views[condition, draw], "query").astype(np.float64)
            lenders = embeddings.donors[condition, draw] if condition in LENT else NOWHERE
            rows = np.flatnonzero(np.arange(len(queries)) != lenders)  # who found none lends to itself
            chosen = galleries[draw : draw + 1] if condition in drawn else galleries
            by_draw = [of_draw.neighbours(queries, clean, rows) for of_draw in chosen]
            for side, setting in enumerate(settings):
                yield setting, (condition, draw), [sides[side] for sides in by_draw]


@dataclass(frozen=True)
class _Galleries:
    """Among whom the photos are asked in one draw, without those that lend them backgrounds in ``conditions``."""

    embeddings: Embeddings
    places: Places
    draw: int
    conditions: Sequence[str]

    @cached_property
    def _excluded(self) -> list[np.ndarray]:
        """Photos that a query does not find, by the first one with the same pixels: rows int64 [N] each, its own among them."""
        originals = self.embeddings.first_copies
        lenders = [self.embeddings.donors.get((name, self.draw)) for name in set(LENT) & set(self.conditions)]
        return [originals, *(originals[lent] for lent in lenders if lent is not None)]

    @cached_property
    def _lot_order(self) -> np.ndarray:
        """Rows by class, within a class in the order of this draw, int64 [N]."""
        lot = seeds.generator("galleries of places", self.draw).permutation(len(self.embeddings.labels))
        return np.lexsort((lot, self.embeddings.labels))

    def neighbours(
        self, queries: np.ndarray, clean: np.ndarray, rows: np.ndarray
    ) -> tuple[Neighbours, Neighbours]:
        """Those of queries float64 [N, D] in the gallery ``clean`` [N, D], at their own place and at the other one; of those in
        ``rows`` alone.
        """
        labels = self.embeddings.labels
        depth = max(deep_enough(labels), DEEPEST_FIXED_RANK)
        nearest = Neighbours.none(len(queries), depth), Neighbours.none(len(queries), depth)
        for block in np.array_split(rows, max(1, -(-len(rows) * len(queries) // BLOCK))):
            order = np.argsort(-(queries[block] @ clean.T), axis=1, kind="stable")
            for side, gallery in zip(nearest, self._match_sides(block), strict=True):
                chosen = np.take_along_axis(gallery, order, axis=1)
                rank = chosen.cumsum(axis=1) - 1
                query, column = np.nonzero(chosen & (rank < depth))
                at = block[query], rank[query, column]
                side.indices[at] = order[query, column]
                side.same_label[at] = labels[side.indices[at]] == labels[at[0]]
                side.relevant[block] = (gallery & (labels == labels[block, None])).sum(axis=1)
        return nearest

    def _match_sides(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Which photos are in the galleries of these queries, at their own place and at the other one: bool [Q, N] each."""
        places, labels = self.places, self.embeddings.labels
        split = self.embeddings.given
        allowed = np.ones(len(labels), bool) if split is None else split.gallery
        originals = self._excluded[0]
        for excluded in self._excluded:
            allowed = allowed & (originals != excluded[rows, None])
        others = places.other(self.draw)[rows, None]
        sides = [
            allowed & (places.own == place) & (others >= 0) for place in (places.own[rows, None], others)
        ]
        in_lots = [side[:, self._lot_order] for side in sides]
        starts = np.flatnonzero(np.diff(labels[self._lot_order], prepend=labels.min() - 1))
        counts = [np.add.reduceat(side, starts, axis=1, dtype=np.int64) for side in in_lots]
        fewest, sizes = np.minimum(*counts), np.diff(starts, append=len(labels))
        for side, of_class, lots in zip(sides, counts, in_lots, strict=True):
            before = np.cumsum(of_class, axis=1) - of_class
            rank = np.cumsum(lots, axis=1) - 1 - np.repeat(before, sizes, axis=1)
            side[:, self._lot_order] = lots & (rank < np.repeat(fewest, sizes, axis=1))
        return sides[0], sides[1]
