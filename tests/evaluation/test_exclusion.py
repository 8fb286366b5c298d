"""Rankings without a class, or without photos on the very same background as the query: against ranking again without them."""

import numpy as np
import pytest
from rankings import embedded, order, unit

from bgbias import seeds
from bgbias.evaluation import scores
from bgbias.evaluation.conditions import CLEAN
from bgbias.evaluation.exclusion import change_for_others, deep_enough, drop_shared
from bgbias.evaluation.metrics import OF_DONOR
from bgbias.evaluation.metrics.map_at_r import per_query
from bgbias.evaluation.retrieval import neighbours
from bgbias.photos.query_gallery import QueryGallerySplit
from bgbias.results import decomposition, rows, uncertainty

CLASSES, PER_CLASS, DIM = 24, 8, 24
LABELS = np.repeat(np.arange(CLASSES), PER_CLASS)
ROWS = np.arange(len(LABELS))
MODEL = ("a", "b", "none", "pretrained")


@pytest.mark.parametrize("seed", range(2))
def test_what_a_class_means_for_others_is_what_ranking_without_it_gives(seed: int) -> None:
    random = np.random.default_rng(seed)
    labels = random.permutation(np.repeat(np.arange(7), [1, 2, 9, 3, 5, 12, 4]))
    queries, gallery = (unit(random.normal(size=(len(labels), 4))) for _ in range(2))
    gallery[len(labels) // 2 :: 3] = gallery[0]  # ties are among them
    counted = random.random(len(labels)) > 0.2
    ranked = neighbours(queries, labels, gallery, labels, deep_enough(labels))
    found = change_for_others(ranked, labels, counted)
    before = per_query(ranked)
    np.testing.assert_array_equal(np.isnan(found), ~counted)
    for label in np.unique(labels[counted]):
        kept = labels != label
        after = per_query(neighbours(queries[kept], labels[kept], gallery[kept], labels[kept]))
        # A query whose class has no other photo counts in neither.
        naive = np.nansum((after - before[kept])[counted[kept]])
        of_class = found[counted & (labels == label)]
        assert of_class.sum() == pytest.approx(naive, abs=1e-12)
        assert np.ptp(of_class) == 0


def lenders(labels: np.ndarray, same_class: bool, *name: object) -> np.ndarray:
    """The row of the photo that lends each photo its background, of its class or of any other."""
    random = seeds.generator("lenders", same_class, *name)
    fits = (labels[:, None] == labels) == same_class
    np.fill_diagonal(fits, False)
    return np.array([random.choice(np.flatnonzero(row)) for row in fits])


def backgrounds(case: str) -> list[tuple[np.ndarray, np.ndarray]]:
    """Whose background each photo is on, as a query and in the gallery."""
    of_class, of_others = lenders(LABELS, True), lenders(LABELS, False)
    if case == "copies":
        # Every fourth photo is a copy of the one before it, and every sixteenth that of a photo of the class before; two lend.
        originals = np.where(ROWS % 4 == 3, ROWS - 1, np.where(ROWS % 16 == 8, ROWS - 2, ROWS))
        of_class, of_others = originals[of_class], originals[of_others]
        of_others[::5] = of_class[::5]  # as where a copy has another label
        return [(of_class, originals), (of_others, originals)]
    lender = of_class if "same" in case else of_others
    return [(lender, lender if "symmetric" in case else ROWS)]


@pytest.mark.parametrize("case", ["symmetric same", "symmetric rand", "query same", "query rand", "copies"])
def test_photos_on_the_querys_background_are_left_out_wherever_they_stand(case: str) -> None:
    random, shared, deep = seeds.generator("shared"), backgrounds(case), 3 * PER_CLASS
    queries, gallery = (unit(random.normal(size=(len(ROWS), 6))) for _ in range(2))
    left = drop_shared(neighbours(queries, LABELS, gallery, LABELS, 2 * deep), LABELS, shared, deep)
    for row in ROWS:
        gone = {row, *(g for lender, of in shared for g in np.flatnonzero(of == lender[row]))}
        expected = order(queries[row], gallery, gone)
        assert left.indices[row].tolist() == expected[:deep]
        assert left.relevant[row] == sum(LABELS[expected] == LABELS[row])


@pytest.mark.parametrize("is_given", [False, True])
def test_a_model_that_sees_backgrounds_alone_does_not_follow_the_copy_of_a_lender(is_given: bool) -> None:
    """Each photo is there twice, and has a background of its own: nothing else of it is seen."""
    labels, given = np.repeat(np.arange(12), 4), QueryGallerySplit.all_among_all(48) if is_given else None
    originals = np.arange(48) // 2 * 2
    clean = unit(seeds.generator("backgrounds alone").normal(size=(48, DIM)))[originals]
    donors = {("mixed_rand", 0): lenders(labels, False)}
    views = {(CLEAN, 0): clean, ("mixed_rand", 0): clean[donors["mixed_rand", 0]]}
    left_in, left_out = (
        scores.score_queries(embedded(labels, views, donors=donors, given=given, originals=known), {})
        .query("condition == 'mixed_rand' and setting == 'query'")[[OF_DONOR, rows.PRECISION_AT_1]]
        .mean()
        for known in (None, originals)
    )
    assert left_in.tolist() == [1, 0]
    assert left_out[OF_DONOR] < 0.25
    assert left_out[rows.PRECISION_AT_1] == pytest.approx(1 / 12, abs=0.1)


@pytest.mark.parametrize("size", [2, 5, 12])
def test_a_model_that_is_blind_to_backgrounds_loses_nothing_in_any_step(size: int) -> None:
    """Every view gives the clean embedding: whatever a step says comes from photos that one condition lacks and another has."""
    labels = np.repeat(np.arange(8), size)
    random = seeds.generator("blind", size)
    clean = unit(random.normal(size=(8, 6))[labels] + random.normal(size=(len(labels), 6)))
    views, donors = {(CLEAN, 0): clean, ("own_inpainted", 0): clean}, {}
    for draw in range(2):
        views |= {(name, draw): clean for name in ("mixed_same", "mixed_rand", "random_background")}
        for name in ("mixed_same", "mixed_rand"):
            donors[name, draw] = lenders(labels, name == "mixed_same", size, draw)
    queries = scores.score_queries(embedded(labels, views, donors=donors), {}).assign(seed=0)
    pair = decomposition.matched_values(queries, MODEL, "query", decomposition.GAP)
    gap = {"gap": pair.estimate(decomposition.GAP, uncertainty.difference)}
    for setting in ("symmetric", "query"):
        values = decomposition.matched_values(queries, MODEL, setting, decomposition.PATH)
        for step, estimate in (decomposition.steps(values) | gap).items():
            nobody = size == 2 and (setting == "query" or step == "gap")
            assert np.isnan(estimate.value) if nobody else abs(estimate.value) < 1e-12, step
