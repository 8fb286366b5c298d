"""What a class means for others' MAP@R, against ranking again without it."""

from __future__ import annotations

import numpy as np
import pytest

from bgbias.evaluation.exclusion import change_for_others, deep_enough
from bgbias.evaluation.metrics import map_at_r
from bgbias.evaluation.retrieval import neighbours


def vectors(n: int, random: np.random.Generator) -> np.ndarray:
    """Unit vectors of which some are equal, so that ties are among them."""
    made = random.normal(size=(n, 4)).astype(np.float32)
    made[n // 2 :: 3] = made[0]
    return made / np.linalg.norm(made, axis=1, keepdims=True)


@pytest.mark.parametrize("seed", range(4))
def test_it_is_what_ranking_without_the_class_gives(seed: int) -> None:
    random = np.random.default_rng(seed)
    labels = random.permutation(np.repeat(np.arange(7) * 10, [1, 2, 9, 3, 5, 12, 4]))
    n = len(labels)
    queries, gallery = vectors(n, random), vectors(n, random)
    counted = random.random(n) > 0.2
    ranked = neighbours(queries, labels, gallery, labels, deep_enough(labels))
    found = change_for_others(ranked, labels, counted)
    before = map_at_r.per_query(ranked)
    np.testing.assert_array_equal(np.isnan(found), ~counted)
    for label in np.unique(labels[counted]):
        kept = labels != label
        after = map_at_r.per_query(neighbours(queries[kept], labels[kept], gallery[kept], labels[kept]))
        # A query whose class has no other photo counts in neither.
        naive = np.nansum((after - before[kept])[counted[kept]])
        own = found[counted & (labels == label)]
        assert own.sum() == pytest.approx(naive, abs=1e-12)
        assert np.ptp(own) == 0


def test_of_one_class_nobody_else_is_there() -> None:
    labels = np.zeros(5, int)
    points = vectors(5, np.random.default_rng(0))
    ranked = neighbours(points, labels, points, labels, deep_enough(labels))
    np.testing.assert_array_equal(change_for_others(ranked, labels, np.ones(5, bool)), np.zeros(5))
