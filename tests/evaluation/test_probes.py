"""Linear and nearest-neighbour evaluation: who is fitted on whom, and what comes of it."""

from collections import Counter

import numpy as np
import pandas as pd
import pytest
from rankings import unit
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from bgbias.errors import UserError
from bgbias.evaluation import probes
from bgbias.evaluation.conditions import CLEAN, RANDOM_BACKGROUND
from bgbias.evaluation.embeddings import Embeddings

CLASSES, EACH = 4, 15
LABELS = np.repeat(np.arange(CLASSES), EACH) * 10
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


@pytest.mark.parametrize(("each", "folds"), [(2, 2), (3, 2), (3, 3)])
def test_small_classes_are_fitted_with_fewer_parts_or_without_choosing(each: int, folds: int) -> None:
    some = np.concatenate([np.flatnonzero(label == LABELS)[:each] for label in (0, 10, 20)])
    clean = clouds(8.0)[some]
    views = {(CLEAN, 0): clean, (RANDOM_BACKGROUND, 0): clean}
    few = Embeddings([NAMES[row] for row in some], LABELS[some], np.ones(len(some), dtype=bool), views)
    assert (means(probes.score_queries(few, folds)) == 1).all(axis=None)
