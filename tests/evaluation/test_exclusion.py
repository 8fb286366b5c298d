"""Rankings without a class, without photos on the query's background, or of given queries and cameras: against ranking again."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from rankings import angles, embedded, order, unit

from bgbias import seeds
from bgbias.auditing.findings import compute_findings
from bgbias.evaluation import scores
from bgbias.evaluation.conditions import CLEAN
from bgbias.evaluation.exclusion import change_for_others, deep_enough, drop_shared
from bgbias.evaluation.metrics import AP_OTHERS, MATCHED, MATCHED_OTHERS, OF_DONOR, OTHERS
from bgbias.evaluation.metrics.map_at_r import per_query
from bgbias.evaluation.retrieval import neighbours
from bgbias.evaluation.whole_gallery import first_ranks, rank_among, rank_photos, rankings
from bgbias.photos.query_gallery import QueryGallerySplit
from bgbias.report.tables.decomposition import table
from bgbias.results import decomposition, rows, uncertainty
from bgbias.results.rows import records

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


def test_photos_on_the_querys_background_are_left_out_wherever_they_stand() -> None:
    of_class, of_others = lenders(LABELS, True), lenders(LABELS, False)
    # Every fourth photo is a copy of the one before it, and every sixteenth that of a photo of the class before; two lend.
    originals = np.where(ROWS % 4 == 3, ROWS - 1, np.where(ROWS % 16 == 8, ROWS - 2, ROWS))
    copied = originals[of_others]
    copied[::5] = originals[of_class][::5]  # as where a copy has another label
    random, deep = seeds.generator("shared"), 3 * PER_CLASS
    queries, gallery = (unit(random.normal(size=(len(ROWS), 6))) for _ in range(2))
    ranked = neighbours(queries, LABELS, gallery, LABELS, 2 * deep)
    for shared in (
        [(of_class, of_class)],
        [(of_others, ROWS)],
        [(originals[of_class], originals), (copied, originals)],
    ):
        left = drop_shared(ranked, LABELS, shared, deep)
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


@pytest.mark.parametrize(("size", "cameras"), [(2, 0), (4, 3), (5, 0), (12, 0), (50, 0)])
def test_a_model_that_is_blind_to_backgrounds_loses_nothing_in_any_step(size: int, cameras: int) -> None:
    """Every view gives the clean embedding: whatever a step says comes from photos that one condition lacks and another has."""
    labels = np.repeat(np.arange(8), size)
    random = seeds.generator("blind", size)
    clean = unit(random.normal(size=(8, 6))[labels] + random.normal(size=(len(labels), 6)))
    views, donors = {(CLEAN, 0): clean, ("own_inpainted", 0): clean}, {}
    for draw in range(2):
        views |= {(name, draw): clean for name in ("mixed_same", "mixed_rand", "random_background")}
        for name in ("mixed_same", "mixed_rand"):
            donors[name, draw] = lenders(labels, name == "mixed_same", size, draw)
    given = QueryGallerySplit.all_among_all(len(labels))
    given = replace(given, camera=random.integers(0, cameras, len(labels))) if cameras else None
    embeddings = embedded(labels, views, donors=donors, given=given)
    queries = scores.score_queries(embeddings, {}).assign(seed=0)
    for setting, column in MATCHED.items():
        asked = queries[queries["setting"] == setting]
        assert asked[column].isna().tolist() == asked[MATCHED_OTHERS[setting]].isna().tolist()
    pair = decomposition.matched_values(queries, MODEL, "query", decomposition.GAP)
    gap = {"gap": pair.estimate(decomposition.GAP, uncertainty.difference)}
    for setting in ("symmetric", "query"):
        values = decomposition.matched_values(queries, MODEL, setting, decomposition.PATH)
        for step, estimate in (decomposition.steps(values) | gap).items():
            nobody = size == 2 and (setting == "query" or step == "gap")
            ends = np.array([estimate.value, estimate.low, estimate.high])
            assert np.isnan(ends).all() if nobody else (abs(ends) < 1e-12).all(), step
    # Where people read them: an audit's, and Table 5, which counts the queries that the steps are of.
    of_audit = compute_findings(embeddings, dict(enumerate("abcdefgh"))).steps
    told = pd.DataFrame(of_audit)[["value", "low", "high"]].to_numpy()
    assert (abs(told[~np.isnan(told)]) < 1e-12).all()
    (row,) = records(table(queries.assign(**dict(zip(rows.MODEL, MODEL, strict=True))), ["mixed_rand"]))
    assert all(abs(row[step]) < 1e-10 for step in (*decomposition.STEPS, "drop"))
    values = decomposition.matched_values(queries, MODEL, "symmetric", decomposition.PATH)
    assert (
        row["queries"] == (~np.isnan([values.columns[name][0] for name in decomposition.PATH])).all(0).sum()
    )


# Given queries, gallery and cameras.

PHOTOS, PERSONS = 90, 9
Crowd = tuple[np.ndarray, np.ndarray, QueryGallerySplit]


def crowd(seed: int, ties: bool = False) -> Crowd:
    """Photos of persons by three cameras; person 0 is nobody. With ``ties`` many photos are the same."""
    random = seeds.generator("crowd", seed)
    labels = random.integers(0, PERSONS, PHOTOS)
    vectors = random.normal(size=(PERSONS, 6))[labels] + 1.5 * random.normal(size=(PHOTOS, 6))
    query = (random.random(PHOTOS) < 0.4) & (labels != 0)
    given = QueryGallerySplit(query, random.random(PHOTOS) < 0.8, random.integers(0, 3, PHOTOS))
    return unit(np.sign(vectors) if ties else vectors), labels, given


def score(vectors: np.ndarray, labels: np.ndarray, given: QueryGallerySplit | None) -> pd.DataFrame:
    return scores.score_queries(embedded(labels, {(CLEAN, 0): vectors}, given=given), {})


def order_of(row: int, people: Crowd, gone: int | None = None) -> list[int]:
    """The gallery by similarity without what does not count for this query."""
    vectors, labels, given = people
    by_camera = (labels == labels[row]) & (given.camera == given.camera[row])
    return order(vectors[row], vectors, {row, *np.flatnonzero(~given.gallery | by_camera | (labels == gone))})


@pytest.mark.parametrize("shared", ["nothing", "symmetric", "query"])
@pytest.mark.parametrize("ties", [False, True])
def test_rankings_are_those_of_a_naive_twin(ties: bool, shared: str) -> None:
    """Without those who stand before the query's background, among each other or in the clean gallery."""
    people = crowd(5, ties)
    vectors, labels, given = people
    lender = seeds.generator("donors").integers(0, PHOTOS, PHOTOS)
    in_gallery = lender if shared == "symmetric" else np.arange(PHOTOS)
    rows = np.flatnonzero(given.query)
    pairs = [] if shared == "nothing" else [(lender, in_gallery)]
    ((_, ranking),) = rankings(vectors[rows], rows, vectors, labels, given, pairs)
    for row, indices, same in zip(rows, ranking.indices, ranking.same_label, strict=True):
        expected = [p for p in order_of(row, people) if not pairs or in_gallery[p] != lender[row]]
        assert indices[indices >= 0].tolist() == expected
        assert same[: len(expected)].tolist() == (labels[expected] == labels[row]).tolist()


def test_golden_cases_with_junk_left_out_and_of_a_small_gallery() -> None:
    # In ranked order (person, camera): (1,1), (1,2), (0,3), (2,1), (1,3); the query is (1,1).
    persons, cameras = np.array([1, 1, 1, 0, 2, 1]), np.array([1, 1, 2, 3, 1, 3])
    query = np.arange(6) == 0
    value = score(angles(0, 5, 10, 15, 25, 30), persons, QueryGallerySplit(query, ~query, cameras)).iloc[0]
    assert (value["average_precision"], value["cmc_1"], value["map_at_r"]) == (0.75, 1, 0.5)
    # Matches at 1 and 4 of (1,2), (0,3), (2,1), (1,3): the far one is first where it is drawn and nobody is before it: never.
    assert (value["single_shot_cmc_1"], value["single_shot_cmc_5"]) == (0.5, 1)
    few = QueryGallerySplit(query[:3], ~query[:3], np.array([0, 1, 1]))
    value = score(angles(0, 6, 90), np.array([1, 1, 2]), few).iloc[0]
    assert (value["average_precision"], value["cmc_10"], value["single_shot_cmc_10"]) == (1, 1, 1)


def test_what_a_person_means_for_others_is_their_change_without_her() -> None:
    people = crowd(6)  # of whom one has a query with nobody to find: it has no share
    _, labels, given = people
    found = score(*people).dropna(subset="average_precision")
    for person in range(1, PERSONS):
        changes = {AP_OTHERS: 0.0, OTHERS: 0.0}
        for row in np.flatnonzero(given.query & (labels != person)):
            before, after = (labels[order_of(row, people, gone)] == labels[row] for gone in (None, person))
            if relevant := int(before.sum()):
                for column, depth in ((AP_OTHERS, None), (OTHERS, relevant)):
                    for hits, sign in ((before[:depth], -1), (after[:depth], 1)):
                        precision = hits.cumsum() / np.arange(1, len(hits) + 1)
                        changes[column] += sign * (hits * precision).sum() / relevant
        for column, change in changes.items():
            shared = found.loc[found["label"] == person, column].sum()
            assert shared == pytest.approx(change, abs=1e-9), (column, person)


def test_blocks_and_kinds_of_queries_agree() -> None:
    vectors, labels, given = crowd(4)
    rows = np.flatnonzero(given.query)
    every = rank_among(vectors, vectors, labels, given)
    first = first_ranks(vectors[rows], rows, vectors, labels, given)
    whole, values = rank_photos(vectors, vectors, labels, given, given.query)
    for part in ("same_label", "relevant", "indices"):
        np.testing.assert_array_equal(getattr(every, part)[rows], getattr(first, part))
        np.testing.assert_array_equal(getattr(whole, part), getattr(every, part))
    assert every.relevant[~given.query].sum() == 0
    assert np.isnan(values["average_precision"][~given.query]).all()
    np.testing.assert_array_equal(given.relevant(labels), every.relevant)
