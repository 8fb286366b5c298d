"""Photos that stand in front of the very same surroundings as a query are not found by these."""

from __future__ import annotations

import numpy as np
import pytest

from bgbias import seeds
from bgbias.evaluation import scores
from bgbias.evaluation.conditions import CLEAN
from bgbias.evaluation.embeddings import Embeddings
from bgbias.evaluation.exclusion import drop_shared
from bgbias.evaluation.metrics import OF_DONOR, map_at_r
from bgbias.evaluation.retrieval import neighbours
from bgbias.photos.query_gallery import QueryGallerySplit
from bgbias.results import decomposition, rows, uncertainty

CLASSES, PER_CLASS, DIM, DRAWS = 24, 8, 24, 3
LABELS = np.repeat(np.arange(CLASSES), PER_CLASS)
ROWS = np.arange(len(LABELS))


def lenders(same_class: bool, *name: object) -> np.ndarray:
    """The row of the photo that lends each photo its surroundings, of its class or of any other."""
    random = seeds.generator("lenders", same_class, *name)
    fits = (LABELS[:, None] == LABELS) == same_class
    np.fill_diagonal(fits, False)
    return np.array([random.choice(np.flatnonzero(row)) for row in fits])


def unit(vectors: np.ndarray) -> np.ndarray:
    return (vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)).astype(np.float32)


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("same_class", [True, False])
def test_metrics_are_those_of_a_gallery_without_them(symmetric: bool, same_class: bool) -> None:
    random = seeds.generator("shared surroundings")
    queries, gallery = (unit(random.normal(size=(len(ROWS), 6))) for _ in range(2))
    gallery = queries if symmetric else gallery
    donors = lenders(same_class)
    deep = 3 * PER_CLASS
    in_gallery = donors if symmetric else ROWS
    ranked = neighbours(queries, LABELS, gallery, LABELS, 2 * deep)
    left = drop_shared(ranked, LABELS, [(donors, in_gallery)], deep)
    assert left.indices.shape[1] == deep
    found = map_at_r.per_query(left)
    for row in ROWS:
        shares = donors == donors[row] if symmetric else donors[row] == ROWS
        order = [
            g for g in np.argsort(-(gallery @ queries[row]), kind="stable") if g != row and not shares[g]
        ]
        relevant = sum(LABELS[g] == LABELS[row] for g in order)
        hits = np.array([LABELS[g] == LABELS[row] for g in order[:relevant]])
        expected = (hits * hits.cumsum() / np.arange(1, relevant + 1)).sum() / relevant
        assert found[row] == pytest.approx(expected, abs=1e-12)


def test_copies_of_a_lender_are_left_out_as_it_is() -> None:
    """Every fourth photo is a copy of the one before it, and every sixteenth that of a photo of the class before; two lend."""
    originals = np.where(ROWS % 4 == 3, ROWS - 1, np.where(ROWS % 16 == 8, ROWS - 2, ROWS))
    random = seeds.generator("copies")
    queries, gallery = (unit(random.normal(size=(len(ROWS), 6))) for _ in range(2))
    of_class, of_others = (originals[lenders(same_class)] for same_class in (True, False))
    of_others[::5] = of_class[::5]  # as where a copy has another label
    deep, pairs = 3 * PER_CLASS, [(of_class, originals), (of_others, originals)]
    ranked = neighbours(queries, LABELS, gallery, LABELS, 2 * deep)
    left = drop_shared(ranked, LABELS, pairs, deep)
    for row in ROWS:
        gone = {of_class[row], of_others[row]}
        order = [
            g
            for g in np.argsort(-(gallery @ queries[row]), kind="stable")
            if g != row and originals[g] not in gone
        ]
        assert left.indices[row].tolist() == order[:deep]
        assert left.relevant[row] == sum(LABELS[g] == LABELS[row] for g in order)


@pytest.mark.parametrize("given", [None, QueryGallerySplit.all_among_all(192)])
def test_a_model_that_sees_backgrounds_alone_does_not_follow_the_copy_of_a_lender(
    given: QueryGallerySplit | None,
) -> None:
    """Each photo is there twice, and has a background of its own: nothing else of it is seen."""
    originals = ROWS - ROWS % 2
    clean = unit(seeds.generator("backgrounds alone").normal(size=(len(ROWS), DIM)))[originals]
    donors = {("mixed_rand", 0): lenders(False)}
    views = {(CLEAN, 0): clean, ("mixed_rand", 0): clean[donors["mixed_rand", 0]]}
    ids, usable = [f"{n:03d}" for n in ROWS], np.ones(len(ROWS), bool)
    left_in, left_out = (
        scores.score_queries(Embeddings(ids, LABELS, usable, views, donors, given, known), {})
        .query("condition == 'mixed_rand' and setting == 'query'")[[OF_DONOR, rows.PRECISION_AT_1]]
        .mean()
        for known in (None, originals)
    )
    assert left_in[OF_DONOR] == 1
    assert left_in[rows.PRECISION_AT_1] == 0
    assert left_out[OF_DONOR] < 0.15
    assert left_out[rows.PRECISION_AT_1] == pytest.approx(1 / CLASSES, abs=0.05)


def test_who_has_nobody_else_to_find_is_no_query() -> None:
    labels, donors = np.array([0, 0, 1, 1, 1]), np.array([1, 0, 3, 2, 2])
    vectors = unit(seeds.generator("pairs").normal(size=(5, 4)))
    ranked = neighbours(vectors, labels, vectors, labels, 4)
    assert np.isnan(
        map_at_r.per_query(drop_shared(ranked, labels, [(donors, np.arange(5))], 3))
    ).tolist() == [
        True,
        True,
        False,
        False,
        False,
    ]


@pytest.mark.parametrize("setting", ["symmetric", "query"])
def test_backgrounds_that_tell_nothing_of_classes_cost_nothing_as_classes_backgrounds(setting: str) -> None:
    """Each photo has surroundings of its own, and the model sees them well: of the class they say nothing."""
    random = seeds.generator("surroundings of its own")
    objects = unit(random.normal(size=(CLASSES, DIM)))[LABELS] + 0.1 * random.normal(size=(len(ROWS), DIM))
    surroundings, others = (unit(random.normal(size=(len(ROWS) * DRAWS, DIM))) for _ in range(2))

    def seen(behind: np.ndarray) -> np.ndarray:
        return unit(np.concatenate([objects, 1.5 * behind], axis=1))

    views = {(CLEAN, 0): seen(surroundings[ROWS])}
    donors = {}
    for draw in range(DRAWS):
        donors["mixed_same", draw] = lenders(True, draw)
        donors["mixed_rand", draw] = lenders(False, draw)
        for name in ("mixed_same", "mixed_rand"):
            views[name, draw] = seen(surroundings[donors[name, draw]])
        views["random_background", draw] = seen(others[draw * len(ROWS) + ROWS])
    usable = np.ones(len(ROWS), bool)
    embeddings = Embeddings([f"{n:03d}" for n in ROWS], LABELS, usable, views, donors)
    queries = scores.score_queries(embeddings, {}).assign(seed=0)
    names = {n: (setting, n) for n in ("mixed_same", "mixed_rand", "random_background")}
    values = rows.values_for_views(queries, ("a", "b", "none", "pretrained"), names)
    left_in = scores.score_queries(Embeddings(embeddings.ids, LABELS, usable, views), {}).assign(seed=0)
    naive = rows.values_for_views(left_in, ("a", "b", "none", "pretrained"), names)
    for name, sign in (("mixed_same", 1), ("mixed_rand", -1)):
        lost = values.estimate([name, "random_background"], uncertainty.difference)
        assert lost.low < 0 < lost.high
        wrong = naive.estimate([name, "random_background"], uncertainty.difference)
        assert sign * wrong.value > abs(lost.value)
        assert name == "mixed_rand" or wrong.low > 0


@pytest.mark.parametrize("size", [2, 3, 4, 5, 8, 32, 50])
@pytest.mark.parametrize("setting", ["symmetric", "query"])
def test_a_model_that_is_blind_to_backgrounds_loses_nothing_in_any_step(size: int, setting: str) -> None:
    """Every view gives the clean embedding: whatever a step says comes from photos that one condition lacks and another has."""
    labels = np.repeat(np.arange(8), size)
    random = seeds.generator("blind", size)
    clean = unit(random.normal(size=(8, 6))[labels] + random.normal(size=(len(labels), 6)))
    views, donors = {(CLEAN, 0): clean, ("own_inpainted", 0): clean}, {}
    for draw in range(DRAWS):
        for name in ("mixed_same", "mixed_rand", "random_background"):
            views[name, draw] = clean
        for name, same_class in (("mixed_same", True), ("mixed_rand", False)):
            fits = (labels[:, None] == labels) == same_class
            np.fill_diagonal(fits, False)
            donors[name, draw] = np.array([random.choice(np.flatnonzero(row)) for row in fits])
    ids = [f"{n:03d}" for n in range(len(labels))]
    embeddings = Embeddings(ids, labels, np.ones(len(labels), bool), views, donors)
    queries = scores.score_queries(embeddings, {}).assign(seed=0)
    model = ("a", "b", "none", "pretrained")
    values = decomposition.matched_values(queries, model, setting, decomposition.PATH)
    pair = decomposition.matched_values(queries, model, "query", decomposition.GAP)
    found = decomposition.steps(values) | {"gap": pair.estimate(decomposition.GAP, uncertainty.difference)}
    for step, estimate in found.items():
        nobody = size == 2 and (setting == "query" or step == "gap")
        assert np.isnan(estimate.value) if nobody else abs(estimate.value) < 1e-12, step
