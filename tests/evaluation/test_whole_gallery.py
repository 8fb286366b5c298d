"""Given queries, gallery and cameras: rankings are those of a naive twin, and all among all is retrieval as ever."""

import numpy as np
import pandas as pd
import pytest
from rankings import embedded, order, unit

from bgbias import seeds
from bgbias.evaluation import metrics, scores
from bgbias.evaluation.conditions import CLEAN
from bgbias.evaluation.metrics import AP_OTHERS, OTHERS
from bgbias.evaluation.whole_gallery import first_ranks, rank_among, rank_photos, rankings
from bgbias.photos.query_gallery import QueryGallerySplit

PHOTOS, PERSONS, DIM = 90, 9, 6
DISTRACTOR = 0
Crowd = tuple[np.ndarray, np.ndarray, QueryGallerySplit]


def crowd(seed: int, ties: bool = False) -> Crowd:
    """Photos of persons by three cameras; person 0 is nobody. With ``ties`` many photos are the same."""
    random = seeds.generator("crowd", seed)
    labels = random.integers(0, PERSONS, PHOTOS)
    vectors = random.normal(size=(PERSONS, DIM))[labels] + 1.5 * random.normal(size=(PHOTOS, DIM))
    query = (random.random(PHOTOS) < 0.4) & (labels != DISTRACTOR)
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


def test_golden_case_with_junk_left_out() -> None:
    # In ranked order (person, camera): (1,1), (1,2), (0,3), (2,1), (1,3); the query is (1,1).
    persons, cameras = np.array([1, 1, 1, 0, 2, 1]), np.array([1, 1, 2, 3, 1, 3])
    angles = np.radians([0, 5, 10, 15, 25, 30])
    query = np.array([True, False, False, False, False, False])
    given = QueryGallerySplit(query, ~query, cameras)
    value = score(unit(np.stack([np.cos(angles), np.sin(angles)], axis=1)), persons, given).iloc[0]
    assert (value["average_precision"], value["cmc_1"], value["map_at_r"]) == (0.75, 1, 0.5)
    # Matches at 1 and 4 of (1,2), (0,3), (2,1), (1,3): the far one is first where it is drawn and nobody is before it: never.
    assert (value["single_shot_cmc_1"], value["single_shot_cmc_5"]) == (0.5, 1)


def test_what_a_class_means_for_others_is_their_change_without_it() -> None:
    people = crowd(7)
    _, labels, given = people
    found = score(*people)
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


def test_everybody_asked_among_all_without_cameras_is_retrieval_as_ever() -> None:
    vectors, labels, _ = crowd(3)
    both, plain = (score(vectors, labels, of) for of in (QueryGallerySplit.all_among_all(PHOTOS), None))
    for column in (*metrics.names(), OTHERS):
        np.testing.assert_allclose(both[column], plain[column], rtol=0, atol=1e-12)
    assert not set(metrics.names(whole=True)) & set(plain.columns)


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


def test_a_small_gallery_lacks_ranks_and_nothing_else() -> None:
    vectors, query = unit(np.array([[1, 0], [1, 0.1], [0, 1]])), np.array([True, False, False])
    given = QueryGallerySplit(query, ~query, np.array([0, 1, 1]))
    value = score(vectors, np.array([1, 1, 2]), given).iloc[0]
    assert (value["average_precision"], value["cmc_10"], value["single_shot_cmc_10"]) == (1, 1, 1)
