"""What embeddings are judged by: metrics, against formulas in plain loops beside their golden values (docs/methods.md, sections 8
and 15), and linear and nearest-neighbour classifiers: who is fitted on whom, and what comes of it (section 6).
"""

import itertools
import math
from collections import Counter
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
import torch
from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator
from rankings import map_at_r, order, random_unit, unit
from scipy.spatial.distance import pdist
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score
from sklearn.neighbors import KNeighborsClassifier

from bgbias import plugins
from bgbias.errors import UserError
from bgbias.evaluation import probes
from bgbias.evaluation.conditions import CLEAN, RANDOM_BACKGROUND
from bgbias.evaluation.embeddings import Embeddings
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


def test_three_metrics_are_those_of_pytorch_metric_learning() -> None:
    names = {"map_at_r": "mean_average_precision_at_r", "r_precision": "r_precision"}
    names["precision_at_1"] = "precision_at_1"
    labels = np.repeat(np.arange(60), np.arange(60) % 9 + 1)
    embeddings = random_unit(5, len(labels), 16).astype(np.float32)
    calculator = AccuracyCalculator(include=(*names.values(),), k="max_bin_count", device=torch.device("cpu"))
    theirs = calculator.get_accuracy(torch.from_numpy(embeddings), torch.from_numpy(labels))
    ranked = neighbours(embeddings, labels, embeddings, labels)
    for ours, name in names.items():
        found = np.nanmean(plugins.load("metrics", ours).per_query(ranked))
        assert found == pytest.approx(theirs[name], abs=1e-6)


UNEVEN = np.repeat(np.arange(6), (1, 2, 3, 5, 8, 13))
VECTORS = unit(random_unit(0, 6, 7)[UNEVEN] + random_unit(1, len(UNEVEN), 7))  # around their class's own


def of_embeddings(metric: str, embeddings: np.ndarray, labels: np.ndarray) -> float:
    found: float = plugins.load("embedding_metrics", metric).of_embeddings(embeddings, labels)
    return found


def test_density_agrees_with_its_naive_twin() -> None:
    """A class of one photo has no pair, and its mean counts as any other."""
    by_class = [VECTORS[c == UNEVEN] for c in range(6)]
    within = np.mean([pdist(own, "cosine").mean() for own in by_class[1:]])
    between = pdist([own.mean(axis=0) for own in by_class], "cosine").mean()
    assert of_embeddings("pi_ratio", VECTORS, UNEVEN) == pytest.approx(within / between, rel=1e-5)
    for too_few in (np.zeros(4, np.int64), np.arange(4)):  # one class, and no pair
        assert math.isnan(of_embeddings("pi_ratio", VECTORS[:4], too_few))


@pytest.mark.parametrize("metric", plugins.names("embedding_metrics"))
def test_metrics_of_embeddings_are_the_same_again_whatever_classes_are_called(metric: str) -> None:
    first = of_embeddings(metric, VECTORS, UNEVEN)
    assert of_embeddings(metric, VECTORS, UNEVEN) == first
    assert of_embeddings(metric, VECTORS, 1000 - 3 * UNEVEN) == pytest.approx(first)


# Classifiers.

EACH = 15
LABELS = np.repeat(np.arange(4), EACH) * 10
NAMES = [f"{label}/{number}.jpg" for number, label in enumerate(LABELS)]


def clouds(apart: float, dim: int = 6, seed: int = 0) -> np.ndarray:
    """A cloud a class, whose middles lie so far apart."""
    random = np.random.default_rng(seed)
    return unit(apart * np.eye(dim)[LABELS // 10] + random.normal(size=(len(LABELS), dim)))


def test_parts_hold_as_many_of_every_class_whatever_order_photos_are_in() -> None:
    place = probes.parts(NAMES, LABELS, 4)
    for label in set(LABELS):
        counts = Counter(place[label == LABELS].tolist())
        assert set(counts) == {0, 1, 2, 3}
        assert max(counts.values()) - min(counts.values()) <= 1
    turned = np.random.default_rng(1).permutation(len(NAMES))
    again = probes.parts([NAMES[row] for row in turned], LABELS[turned], 4)
    assert np.array_equal(again, place[turned])
    few = np.concatenate([LABELS, [70, 70, 70]])
    assert (probes.parts([*NAMES, "a", "b", "c"], few, 4) == -1).sum() == 3


def test_neighbours_vote_as_an_independent_classifier_has_them_vote(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "AT_ONCE", 7)
    one, other = clouds(1.0), clouds(1.0, seed=1)
    for rows in (np.arange(len(LABELS)), np.array([0, 1, 15, 16])):  # of few, all vote
        found = probes.nearest(one[rows], LABELS[rows])(other)
        count = min(20, len(rows))
        theirs = KNeighborsClassifier(
            count,
            metric="cosine",
            algorithm="brute",
            weights=lambda distances: np.exp((1 - distances) / 0.07),
        )
        assert np.array_equal(found, theirs.fit(one[rows], LABELS[rows]).predict(other))
        assert 0.3 < (found == LABELS).mean() < 1


@pytest.mark.parametrize("strength", [min(probes.STRENGTHS), max(probes.STRENGTHS)])
def test_every_penalty_is_followed_to_its_minimum(strength: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A weak penalty takes many steps; a fit that ends early names other classes."""
    random = np.random.default_rng(0)
    middles, labels = random.normal(size=(12, 48)), np.repeat(np.arange(12), 25)
    one, other = (unit(0.35 * middles[labels] + random.normal(size=(300, 48))) for _ in range(2))
    monkeypatch.setattr(probes, "STRENGTHS", (strength,))
    found = probes.linear(one, labels)(other)
    converged = LogisticRegression(C=strength, tol=1e-10, max_iter=10**6).fit(one.astype(np.float64), labels)
    assert (found == converged.predict(other.astype(np.float64))).mean() >= 0.995


def embedded(clean: np.ndarray, corrupted: np.ndarray, usable: np.ndarray | None = None) -> Embeddings:
    known = np.ones(len(LABELS), dtype=bool) if usable is None else usable
    views = {(CLEAN, 0): clean, (RANDOM_BACKGROUND, 0): corrupted, (RANDOM_BACKGROUND, 1): clean}
    return Embeddings(NAMES, LABELS, known, views)


def means(queries: pd.DataFrame) -> pd.DataFrame:
    return queries.groupby(["condition", "draw"])[["linear", "nearest"]].mean()


def test_what_is_named_was_not_fitted_on() -> None:
    """Of noise nothing is known but by those who saw the very photo."""
    noise = unit(np.random.default_rng(0).normal(size=(len(LABELS), 60)))
    assert (means(probes.score_queries(embedded(noise, noise), 3)) < 0.5).all(axis=None)


def test_classifiers_of_clean_photos_are_asked_of_every_view() -> None:
    """Those of the split, or others by names and with numbers of classes of their own: 3, 2, 1, 0 for 0, 10, 20, 30."""
    clean, usable = clouds(8.0), np.arange(len(LABELS)) % 7 != 0
    # On one background each photo looks like one of the next class.
    asked = embedded(clean, np.roll(clean, -EACH, axis=0), usable)
    names, known = [f"train/{name}" for name in NAMES], np.ones(len(LABELS), dtype=bool)
    training = Embeddings(names, 3 - LABELS // 10, known, {(CLEAN, 0): clouds(8.0, seed=1)})
    for found in (probes.score_queries(asked, 2), probes.of_others(asked, training, 3 - LABELS // 10)):
        for _, view in found.groupby(["condition", "draw"]):
            assert view["image_id"].tolist() == np.array(NAMES)[usable].tolist()
            assert view["label"].tolist() == LABELS[usable].tolist()
        rates = means(found)
        assert rates.loc[(CLEAN, 0)].tolist() == rates.loc[(RANDOM_BACKGROUND, 1)].tolist() == [1, 1]
        assert rates.loc[(RANDOM_BACKGROUND, 0)].tolist() == [0, 0]
    labels = np.where(np.arange(EACH) == 0, 2, training.labels[:EACH])
    few = Embeddings(names[:EACH], labels, known[:EACH], {(CLEAN, 0): clean[:EACH]})
    with pytest.raises(UserError, match=r"2 classes of the test photos have none among the \d+ training"):
        probes.of_others(asked, few, 3 - LABELS // 10)
    with pytest.raises(UserError, match="Probes need training photos of two classes"):
        probes.of_others(embedded(clean, clean, LABELS < 0), training, LABELS)


def test_too_few_photos_or_masks_are_refused() -> None:
    for usable, folds, words in (
        (LABELS >= 0, 16, r"fewer than two have 16 photos or more.*Lower probes\.folds"),
        (LABELS == 0, 3, r"with a trusted mask.*docs/masks"),
    ):
        with pytest.raises(UserError, match=words):
            probes.score_queries(embedded(clouds(1.0), clouds(1.0), usable), folds)


@pytest.mark.parametrize(("each", "folds", "parts"), [(2, 2, 2), (3, 2, 2), (3, 3, 3), (3, 3, 1)])
def test_small_classes_are_fitted_with_fewer_parts_or_no_choice(each: int, folds: int, parts: int) -> None:
    some = np.concatenate([np.flatnonzero(label == LABELS)[:each] for label in (0, 10, 20)])
    names, clean = [NAMES[row] for row in some], clouds(8.0)[some]
    usable = probes.parts(names, LABELS[some], folds) < parts  # photos of the others have no trusted mask
    few = Embeddings(names, LABELS[some], usable, {(CLEAN, 0): clean, (RANDOM_BACKGROUND, 0): clean})
    assert (means(probes.score_queries(few, folds)) == 1).all(axis=None)
