"""Metrics against formulas in plain loops and other libraries (docs/methods.md, sections 8 and 15)."""

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator
from rankings import map_at_r, order, unit
from sklearn.metrics import average_precision_score, normalized_mutual_info_score

from bgbias import plugins, seeds
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


def photos(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Photos of classes of very different sizes, some of one photo."""
    generator = np.random.default_rng(0)
    labels = (n // 4 * generator.random(n) ** 3).astype(int)
    return unit(generator.normal(size=(n, 16))[labels] + generator.normal(size=(n, 16))), labels


@pytest.mark.parametrize("metric", plugins.names("metrics"))
def test_every_metric_is_its_formula_in_plain_loops(metric: str) -> None:
    embeddings, labels = photos(150)
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


def test_agrees_with_pytorch_metric_learning() -> None:
    names = {
        "map_at_r": "mean_average_precision_at_r",
        "r_precision": "r_precision",
        "precision_at_1": "precision_at_1",
    }
    embeddings, labels = photos(600)
    calculator = AccuracyCalculator(
        include=tuple(names.values()), k="max_bin_count", device=torch.device("cpu")
    )
    theirs = calculator.get_accuracy(torch.from_numpy(embeddings), torch.from_numpy(labels))
    n = neighbours(embeddings, labels, embeddings, labels)
    assert (n.relevant == 0).any()
    for ours, name in names.items():
        found = np.nanmean(plugins.load("metrics", ours).per_query(n))
        assert found == pytest.approx(theirs[name], abs=1e-6)


UNEVEN = np.repeat(np.arange(6), (1, 2, 3, 5, 8, 13))


def of_embeddings(metric: str, embeddings: np.ndarray, labels: np.ndarray) -> float:
    found: float = plugins.load("embedding_metrics", metric).of_embeddings(embeddings, labels)
    return found


def directions(labels: np.ndarray, apart: float) -> np.ndarray:
    """Unit vectors around their class's own, the closer the larger ``apart`` is."""
    random = seeds.generator("directions", apart)
    centres = random.normal(size=(labels.max() + 1, 7))
    return unit(apart * centres[labels] + random.normal(size=(len(labels), 7)))


def test_mutual_information_is_that_of_another_library() -> None:
    for kinds in ((1, 1), (1, 4), (3, 9), (40, 40)):
        one, other = (seeds.generator("labellings", n).integers(n, size=120) for n in kinds)
        expected = normalized_mutual_info_score(one, other)
        assert nmi.normalized_mutual_information(one, other) == pytest.approx(expected, abs=1e-12)


def test_density_agrees_with_its_naive_twin() -> None:
    """Pair by pair; a class of one photo has no pair, and its mean counts as any other."""
    labels, vectors = UNEVEN, directions(UNEVEN, 1.0)
    by_class = [[z.astype(float) for z in vectors[labels == c]] for c in range(6)]
    within = [
        np.mean([1 - a @ b for a, b in itertools.permutations(own, 2)]) for own in by_class if len(own) > 1
    ]
    means = [sum(own) / np.linalg.norm(sum(own)) for own in by_class]
    between = np.mean([1 - a @ b for a, b in itertools.permutations(means, 2)])
    found = of_embeddings("pi_ratio", vectors, labels)
    assert found == pytest.approx(np.mean(within) / between, rel=1e-5)
    for too_few in (np.zeros(4, np.int64), np.arange(4)):  # one class, and no pair
        assert math.isnan(of_embeddings("pi_ratio", vectors[:4], too_few))


def test_clusters_are_the_nearest_of_as_many_centres() -> None:
    vectors = directions(UNEVEN, 1.0)
    found = nmi.clusters(vectors, 6)
    assert found.dtype == np.int64
    centres = np.stack([vectors[found == c].mean(0) for c in range(6)])
    assert np.array_equal(np.square(vectors[:, None] - centres).sum(2).argmin(1), found)


@pytest.mark.parametrize("metric", plugins.names("embedding_metrics"))
def test_metrics_of_embeddings_are_the_same_again_whatever_classes_are_called(metric: str) -> None:
    vectors = directions(UNEVEN, 1.0)
    first = of_embeddings(metric, vectors, UNEVEN)
    assert of_embeddings(metric, vectors, UNEVEN) == first
    assert of_embeddings(metric, vectors, 1000 - 3 * UNEVEN) == pytest.approx(first)
