"""Metrics against formulas in plain loops, beside their golden values (docs/methods.md, sections 8 and 15)."""

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from rankings import map_at_r, order, random_unit, unit
from sklearn.metrics import average_precision_score

from bgbias import plugins
from bgbias.evaluation.embedding_metrics import nmi
from bgbias.evaluation.retrieval import neighbours
from bgbias.evaluation.whole_gallery import WholeRanking


def single_shot_cmc(persons: np.ndarray, person: int, k: int) -> float:
    """Over all galleries with one photo of each person."""
    places = [np.flatnonzero(persons == one).tolist() for one in dict.fromkeys(persons.tolist())]
    galleries = [sorted(chosen) for chosen in itertools.product(*places)]
    return float(np.mean([person in persons[gallery[:k]] for gallery in galleries]))


def by_definition(metric: str, persons: np.ndarray, person: int) -> float:
    """Of a whole ranking of photos of these persons, for a query of that one."""
    name, _, last = metric.rpartition("_")
    k = int(last) if last.isdecimal() else 0
    hits = (persons == person).tolist()
    if name == "recall_at":
        return float(any(hits[:k]))
    if not any(hits):
        return math.nan
    formulas: dict[str, Callable[[], float]] = {
        "precision_at": lambda: float(hits[0]),
        "map_at": lambda: map_at_r(hits),
        "r": lambda: sum(hits[: sum(hits)]) / sum(hits),
        "average": lambda: average_precision_score(hits, -np.arange(len(hits))),
        "cmc": lambda: float(any(hits[:k])),
        "single_shot_cmc": lambda: single_shot_cmc(persons, person, k),
    }
    return formulas[name]()


@pytest.mark.parametrize("metric", plugins.names("metrics"))
def test_every_metric_is_its_formula_in_plain_loops(metric: str) -> None:
    generator = np.random.default_rng(0)
    # Classes of very different sizes, some of one photo.
    labels = (37 * generator.random(150) ** 3).astype(int)
    embeddings = unit(generator.normal(size=(150, 16))[labels] + generator.normal(size=(150, 16)))
    if "single_shot" in metric:  # which has to go through all galleries
        labels = np.repeat(np.arange(12), [3, 2, 1, 2, 1, 2, 1, 1, 2, 1, 1, 2])
        embeddings = embeddings[: len(labels)]
    ranked = neighbours(embeddings, labels, embeddings, labels, k=len(labels) - 1)
    n = WholeRanking(ranked.same_label, ranked.relevant, ranked.indices, labels[ranked.indices])
    found = plugins.load("metrics", metric).per_query(n)
    naive = [
        by_definition(metric, labels[order(embeddings[row], embeddings, {row})], labels[row])
        for row in range(len(labels))
    ]
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, naive, atol=1e-12)
    assert 0 < np.nanmean(found) <= 1
    assert np.isnan(found).any() != metric.startswith("recall")


UNEVEN = np.repeat(np.arange(6), (1, 2, 3, 5, 8, 13))
VECTORS = unit(random_unit(0, 6, 7)[UNEVEN] + random_unit(1, len(UNEVEN), 7))  # around their class's own


def of_embeddings(metric: str, embeddings: np.ndarray, labels: np.ndarray) -> float:
    found: float = plugins.load("embedding_metrics", metric).of_embeddings(embeddings, labels)
    return found


def test_density_agrees_with_its_naive_twin() -> None:
    """Pair by pair; a class of one photo has no pair, and its mean counts as any other."""
    by_class = [[z.astype(float) for z in VECTORS[c == UNEVEN]] for c in range(6)]
    within = [
        np.mean([1 - a @ b for a, b in itertools.permutations(own, 2)]) for own in by_class if len(own) > 1
    ]
    means = [sum(own) / np.linalg.norm(sum(own)) for own in by_class]
    between = np.mean([1 - a @ b for a, b in itertools.permutations(means, 2)])
    found = of_embeddings("pi_ratio", VECTORS, UNEVEN)
    assert found == pytest.approx(np.mean(within) / between, rel=1e-5)
    for too_few in (np.zeros(4, np.int64), np.arange(4)):  # one class, and no pair
        assert math.isnan(of_embeddings("pi_ratio", VECTORS[:4], too_few))


def test_clusters_are_the_nearest_of_as_many_centres() -> None:
    found = nmi.clusters(VECTORS, 6)
    assert found.dtype == np.int64
    centres = np.stack([VECTORS[found == c].mean(0) for c in range(6)])
    assert np.array_equal(np.square(VECTORS[:, None] - centres).sum(2).argmin(1), found)


@pytest.mark.parametrize("metric", plugins.names("embedding_metrics"))
def test_metrics_of_embeddings_are_the_same_again_whatever_classes_are_called(metric: str) -> None:
    first = of_embeddings(metric, VECTORS, UNEVEN)
    assert of_embeddings(metric, VECTORS, UNEVEN) == first
    assert of_embeddings(metric, VECTORS, 1000 - 3 * UNEVEN) == pytest.approx(first)
