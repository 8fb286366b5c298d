"""Metrics against hand-computed values, plain loops and pytorch-metric-learning's calculator."""

from __future__ import annotations

import numpy as np
import pytest

from bgbias import plugins
from bgbias.evaluation.retrieval import Neighbours, neighbours

METRICS = ("map_at_r", "precision_at_1", "r_precision", "recall_at_2", "recall_at_4", "recall_at_8")


def value(metric: str, n: Neighbours) -> float:
    return float(np.nanmean(plugins.load("metrics", metric).per_query(n)))


def one_query(relevance: tuple[int, ...], relevant: int) -> Neighbours:
    hits = np.array([relevance], dtype=bool)
    return Neighbours(hits, np.array([relevant]), np.arange(hits.size)[None])


# docs/methods.md, section 11, G1a-G1c: relevance of the ranks, R, then P@1, RP, MAP@R.
@pytest.mark.parametrize(
    ("relevance", "relevant", "p1", "rp", "map_at_r"),
    [
        ((1, 0, 1), 3, 1.0, 0.666667, 0.555556),
        ((0, 1, 1, 0), 4, 0.0, 0.5, 0.291667),
        ((1,), 1, 1.0, 1.0, 1.0),
    ],
)
def test_hand_computed_rankings(
    relevance: tuple[int, ...], relevant: int, p1: float, rp: float, map_at_r: float
) -> None:
    n = one_query(relevance, relevant)
    assert value("precision_at_1", n) == p1
    assert value("r_precision", n) == pytest.approx(rp, abs=5e-7)
    assert value("map_at_r", n) == pytest.approx(map_at_r, abs=5e-7)


def test_hits_beyond_r_do_not_count() -> None:
    n = one_query((0, 0, 1, 1), 2)
    assert value("map_at_r", n) == value("r_precision", n) == 0.0


def seven_angles() -> Neighbours:
    """docs/methods.md, section 11, G1d: unit vectors at these angles; class 2 has a single photo."""
    angle = np.radians([0, 10, 25, 40, 60, 75, 200])
    embeddings = np.stack([np.cos(angle), np.sin(angle)], axis=1).astype(np.float32)
    labels = np.array([0, 0, 1, 0, 1, 1, 2])
    return neighbours(embeddings, labels, embeddings, labels)


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("precision_at_1", 0.666667),
        ("r_precision", 0.333333),
        ("map_at_r", 0.333333),
        ("recall_at_2", 0.571429),
        ("recall_at_4", 0.857143),
    ],
)
def test_seven_angles(metric: str, expected: float) -> None:
    assert value(metric, seven_angles()) == pytest.approx(expected, abs=5e-7)


def test_a_lone_photo_is_skipped_by_precision_and_a_miss_for_recall() -> None:
    n = seven_angles()
    for metric in METRICS:
        lone = plugins.load("metrics", metric).per_query(n)[6]
        assert lone == 0.0 if metric.startswith("recall") else np.isnan(lone)
    # docs/methods.md, section 11, G1d, R@1 over all seven queries.
    assert n.top(1).any(axis=1).mean() == pytest.approx(0.571429, abs=5e-7)


def by_plain_loops(metric: str, embeddings: np.ndarray, labels: np.ndarray) -> list[float]:
    """Each metric from its formula, one query and one rank at a time."""
    values = []
    for i in range(len(labels)):
        others = [j for j in range(len(labels)) if j != i]
        others.sort(key=lambda j: -float(embeddings[i].astype(float) @ embeddings[j].astype(float)))
        hits = [bool(labels[j] == labels[i]) for j in others]
        relevant = sum(hits)
        if metric.startswith("recall"):
            values.append(float(any(hits[: int(metric[-1])])))
        elif relevant == 0:
            values.append(float("nan"))
        elif metric == "precision_at_1":
            values.append(float(hits[0]))
        elif metric == "r_precision":
            values.append(sum(hits[:relevant]) / relevant)
        else:
            total = 0.0
            for k in range(1, relevant + 1):
                if hits[k - 1]:
                    total += sum(hits[:k]) / k
            values.append(total / relevant)
    return values


def random_photos(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Photos of classes of very different sizes, some of one photo."""
    generator = np.random.default_rng(seed)
    labels = (n // 4 * generator.random(n) ** 3).astype(int)
    embeddings = generator.standard_normal((n, 16))[labels] + generator.standard_normal((n, 16))
    return (embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)).astype(np.float32), labels


@pytest.mark.parametrize("metric", METRICS)
def test_equal_to_plain_loops(metric: str) -> None:
    embeddings, labels = random_photos(150, seed=0)
    n = neighbours(embeddings, labels, embeddings, labels)
    per_query = plugins.load("metrics", metric).per_query(n)
    assert per_query.dtype == np.float64
    assert per_query.shape == (150,)
    np.testing.assert_allclose(per_query, by_plain_loops(metric, embeddings, labels), atol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_agrees_with_pytorch_metric_learning(seed: int) -> None:
    import torch
    from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator

    names = {
        "map_at_r": "mean_average_precision_at_r",
        "r_precision": "r_precision",
        "precision_at_1": "precision_at_1",
    }
    embeddings, labels = random_photos(600, seed)
    calculator = AccuracyCalculator(
        include=tuple(names.values()), k="max_bin_count", device=torch.device("cpu")
    )
    theirs = calculator.get_accuracy(torch.from_numpy(embeddings), torch.from_numpy(labels))
    n = neighbours(embeddings, labels, embeddings, labels)
    assert (n.relevant == 0).any()
    for ours, name in names.items():
        assert value(ours, n) == pytest.approx(theirs[name], abs=1e-6)
