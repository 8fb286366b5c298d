"""Metrics of all embeddings together: golden values, naive twins, scikit-learn (docs/methods.md, sections 8 and 11, G10)."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest
from sklearn.metrics import normalized_mutual_info_score

from bgbias import plugins, seeds
from bgbias.evaluation.embedding_metrics.nmi import clusters, normalized_mutual_information

UNEVEN = np.repeat(np.arange(6), (1, 2, 3, 5, 8, 13))


def of_embeddings(metric: str, embeddings: np.ndarray, labels: np.ndarray) -> float:
    found: float = plugins.load("embedding_metrics", metric).of_embeddings(embeddings, labels)
    return found


def directions(labels: np.ndarray, apart: float) -> np.ndarray:
    """Unit vectors around their class's own, the closer the larger ``apart`` is."""
    random = seeds.generator("directions", apart)
    centres = random.normal(size=(labels.max() + 1, 7))
    vectors = apart * centres[labels] + random.normal(size=(len(labels), 7))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def test_golden_mutual_information() -> None:
    classes, found = np.array([0, 0, 0, 1, 1, 1]), np.array([0, 0, 1, 1, 1, 1])
    assert normalized_mutual_information(classes, found) == pytest.approx(0.478704, abs=5e-7)
    assert normalized_mutual_information(classes, 7 - classes) == pytest.approx(1)


def test_golden_density() -> None:
    vectors = np.array([[1, 0], [0, 1], [-1, 0], [-0.6, -0.8]], np.float32)
    assert of_embeddings("pi_ratio", vectors, np.array([0, 0, 1, 1])) == pytest.approx(0.359217, abs=5e-7)


@pytest.mark.parametrize("kinds", [(1, 1), (1, 4), (5, 1), (3, 9), (40, 40)])
def test_mutual_information_agrees_with_another_library(kinds: tuple[int, int]) -> None:
    random = seeds.generator("labellings", *kinds)
    one, other = (random.integers(number, size=120) for number in kinds)
    expected = normalized_mutual_info_score(one, other)
    assert normalized_mutual_information(one, other) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("apart", [0.0, 1.0, 5.0])
def test_density_agrees_with_its_naive_twin(apart: float) -> None:
    """Pair by pair; a class of one photo has no pair, and its mean counts as any other."""
    labels, vectors = UNEVEN, directions(UNEVEN, apart)
    by_class = [[z.astype(float) for z in vectors[labels == c]] for c in range(6)]
    within = [np.mean([1 - a @ b for a, b in permutations(own, 2)]) for own in by_class if len(own) > 1]
    means = [sum(own) / np.linalg.norm(sum(own)) for own in by_class]
    between = np.mean([1 - a @ b for a, b in permutations(means, 2)])
    found = of_embeddings("pi_ratio", vectors, labels)
    assert found == pytest.approx(np.mean(within) / between, rel=1e-5)


def test_density_needs_two_classes_and_a_pair() -> None:
    vectors = directions(UNEVEN, 1.0)[:4]
    assert math.isnan(of_embeddings("pi_ratio", vectors, np.zeros(4, np.int64)))
    assert math.isnan(of_embeddings("pi_ratio", vectors, np.arange(4)))


def test_clusters_are_classes_that_lie_apart_and_the_better_the_farther() -> None:
    """A class of 20 can be cut in two by an unlucky start, and two be one cluster: not all is found."""
    labels = np.repeat(np.arange(6), 20)
    found = [of_embeddings("nmi", directions(labels, apart), labels) for apart in (0.0, 1.0, 8.0)]
    assert found[0] < 0.3 < found[1] < found[2]
    assert found[2] > 0.85


def test_clusters_are_the_nearest_of_as_many_centres() -> None:
    vectors = directions(UNEVEN, 1.0)
    found = clusters(vectors, 6)
    assert found.dtype == np.int64
    assert set(found) == set(range(6))
    centres = np.stack([vectors[found == c].mean(0) for c in range(6)])
    apart = np.square(vectors[:, None] - centres).sum(2)
    assert np.array_equal(apart.argmin(1), found)


@pytest.mark.parametrize("metric", ["nmi", "pi_ratio"])
def test_they_are_of_the_photos_whatever_classes_are_called_and_say_the_same_again(metric: str) -> None:
    vectors = directions(UNEVEN, 1.0)
    first = of_embeddings(metric, vectors, UNEVEN)
    assert of_embeddings(metric, vectors, UNEVEN) == first
    assert of_embeddings(metric, vectors, 1000 - 3 * UNEVEN) == pytest.approx(first)
