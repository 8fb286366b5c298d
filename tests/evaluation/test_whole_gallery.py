"""Given queries, gallery and cameras: rankings and metrics are those of the field's formulas, written down naively."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from bgbias import plugins, seeds
from bgbias.evaluation import embeddings, metrics, scores
from bgbias.evaluation.conditions import CLEAN
from bgbias.evaluation.embeddings import Embeddings
from bgbias.evaluation.metrics import AP_OTHERS, OTHERS
from bgbias.evaluation.whole_gallery import WholeRanking, first_ranks, rank_among, rank_photos, rankings
from bgbias.photos.query_gallery import QueryGallerySplit

PHOTOS, PERSONS, DIM = 90, 9, 6
DISTRACTOR = 0


def unit(vectors: np.ndarray) -> np.ndarray:
    return (vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)).astype(np.float32)


def crowd(
    seed: int, cameras: int = 3, ties: bool = False
) -> tuple[np.ndarray, np.ndarray, QueryGallerySplit]:
    """Photos of persons by several cameras; person 0 is nobody. With ``ties`` many photos are the same."""
    random = seeds.generator("crowd", seed)
    labels = random.integers(0, PERSONS, PHOTOS)
    vectors = random.normal(size=(PERSONS, DIM))[labels] + 1.5 * random.normal(size=(PHOTOS, DIM))
    if ties:
        vectors = np.sign(vectors)
    query = (random.random(PHOTOS) < 0.4) & (labels != DISTRACTOR)
    given = QueryGallerySplit(query, random.random(PHOTOS) < 0.8, random.integers(0, cameras, PHOTOS))
    return unit(vectors), labels, given


def told(
    vectors: np.ndarray, labels: np.ndarray, given: QueryGallerySplit, gallery: np.ndarray | None = None
) -> object:
    names = [f"{n:03d}" for n in range(len(labels))]
    embedded = Embeddings(names, labels, np.ones(len(labels), bool), {(CLEAN, 0): vectors}, {}, given)
    return scores.score_queries(embedded, {}, gallery)


def order_of(
    row: int, vectors: np.ndarray, labels: np.ndarray, given: QueryGallerySplit, gone: int | None = None
) -> list[int]:
    """The gallery by similarity without what does not count for this query, equal ones by their place."""
    rounded = np.rint(vectors.astype(np.float64) * 2**24) / 2**24
    ranked = np.argsort(-(rounded @ rounded[row]), kind="stable")
    kept = []
    for photo in ranked:
        if not given.gallery[photo] or photo == row or labels[photo] == gone:
            continue
        if labels[photo] == labels[row] and given.camera[photo] == given.camera[row]:
            continue
        kept.append(int(photo))
    return kept


def average_precision(hits: np.ndarray) -> float:
    """As torchreid's evaluation of Market-1501 has it."""
    precision = hits.cumsum() / (np.arange(len(hits)) + 1.0)
    return float((precision * hits).sum() / hits.sum())


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_metrics_are_the_fields_formulas(seed: int, ties: bool) -> None:
    vectors, labels, given = crowd(seed, ties=ties)
    found = told(vectors, labels, given).set_index("image_id")
    assert list(found.index.astype(int)) == np.flatnonzero(given.query).tolist()
    asked = 0
    for row in np.flatnonzero(given.query):
        hits = np.array([labels[p] == labels[row] for p in order_of(row, vectors, labels, given)])
        value = found.loc[f"{row:03d}"]
        if not hits.any():
            assert np.isnan(
                value[["average_precision", "cmc_1", "cmc_5", "cmc_10", "map_at_r"]].astype(float)
            ).all()
            continue
        asked += 1
        assert value["average_precision"] == pytest.approx(average_precision(hits), abs=1e-12)
        for k in (1, 5, 10):
            assert value[f"cmc_{k}"] == float(hits[:k].any())
        relevant = int(hits.sum())
        first = hits[:relevant] * hits.cumsum()[:relevant] / (np.arange(relevant) + 1.0)
        assert value["map_at_r"] == pytest.approx(first.sum() / relevant, abs=1e-12)
        assert value["precision_at_1"] == float(hits[0])
        assert value["recall_at_4"] == float(hits[:4].any())
    assert asked > 10


def test_golden_case_with_junk_left_out() -> None:
    # In ranked order (person, camera): (1,1), (1,2), (0,3), (2,1), (1,3); the query is (1,1).
    persons, cameras = np.array([1, 1, 1, 0, 2, 1]), np.array([1, 1, 2, 3, 1, 3])
    angles = np.radians([0, 5, 10, 15, 25, 30])
    vectors = unit(np.stack([np.cos(angles), np.sin(angles)], axis=1))
    query = np.array([True, False, False, False, False, False])
    value = told(vectors, persons, QueryGallerySplit(query, ~query, cameras)).iloc[0]
    assert value["average_precision"] == 0.75
    assert (value["cmc_1"], value["map_at_r"]) == (1, 0.5)
    # Matches at 1 and 4 of (1,2), (0,3), (2,1), (1,3): the far one is first where it is drawn and nobody is before it: never.
    assert value["single_shot_cmc_1"] == 0.5
    assert value["single_shot_cmc_5"] == 1


@pytest.mark.parametrize("k", [1, 5, 10])
def test_single_shot_is_the_mean_over_all_galleries(k: int) -> None:
    random = seeds.generator("galleries", k)
    labels = random.permutation(np.repeat(np.arange(12), [3, 2, 1, 2, 1, 2, 1, 1, 2, 1, 1, 2]))
    own = 0
    same = labels == own
    ranking = WholeRanking(same[None], np.array([same.sum()]), np.arange(len(labels))[None], labels[None])
    found = plugins.load("metrics", f"single_shot_cmc_{k}").per_query(ranking)
    places = [np.flatnonzero(labels == person) for person in np.unique(labels)]
    right = [sum(p < chosen[own] for p in chosen) < k for chosen in itertools.product(*places)]
    assert found[0] == pytest.approx(np.mean(right), abs=1e-12)
    assert 0 < found[0] <= 1


def test_what_a_class_means_for_others_is_their_change_without_it() -> None:
    vectors, labels, given = crowd(7)
    found = told(vectors, labels, given).set_index("image_id")
    for metric, column in (("average_precision", AP_OTHERS), ("map_at_r", OTHERS)):
        for person in range(1, PERSONS):
            change = 0.0
            for row in np.flatnonzero(given.query & (labels != person)):
                both = [
                    np.array([labels[p] == labels[row] for p in order_of(row, vectors, labels, given, gone)])
                    for gone in (None, person)
                ]
                relevant = int(both[0].sum())
                if relevant:
                    cut = [h if metric == "average_precision" else h[:relevant] for h in both]
                    before, after = (
                        (h * h.cumsum() / (np.arange(len(h)) + 1.0)).sum() / relevant for h in cut
                    )
                    change += after - before
            shared = found.loc[found["label"] == person, column].sum()
            assert shared == pytest.approx(change, abs=1e-9), (metric, person)


def test_everybody_asked_among_all_without_cameras_is_retrieval_as_ever() -> None:
    vectors, labels, _ = crowd(3)
    all_of_them = np.ones(PHOTOS, bool)
    given = QueryGallerySplit(all_of_them, all_of_them, np.full(PHOTOS, -1))
    names = [str(n) for n in range(PHOTOS)]
    plain = scores.score_queries(Embeddings(names, labels, all_of_them, {(CLEAN, 0): vectors}), {})
    both = told(vectors, labels, given)
    for column in (*metrics.names(), OTHERS):
        np.testing.assert_allclose(both[column], plain[column], rtol=0, atol=1e-12)
    assert not set(metrics.names(whole=True)) & set(plain.columns)


def test_blocks_and_kinds_of_queries_agree() -> None:
    vectors, labels, given = crowd(4)
    rows = np.flatnonzero(given.query)
    every = rank_among(vectors, vectors, labels, given)
    first = first_ranks(vectors[rows], rows, vectors, labels, given)
    whole, values = rank_photos(vectors, vectors, labels, given, given.query)
    for part, of_rows in (("same_label", rows), ("relevant", rows), ("indices", rows)):
        np.testing.assert_array_equal(getattr(every, part)[of_rows], getattr(first, part))
        np.testing.assert_array_equal(getattr(whole, part), getattr(every, part))
    assert every.relevant[~given.query].sum() == 0
    assert np.isnan(values["average_precision"][~given.query]).all()
    np.testing.assert_array_equal(given.relevant(labels), every.relevant)


@pytest.mark.parametrize("symmetric", [True, False])
def test_who_stands_in_front_of_the_same_surroundings_is_left_out(symmetric: bool) -> None:
    vectors, labels, given = crowd(5)
    donors = seeds.generator("donors").integers(0, PHOTOS, PHOTOS)
    in_gallery = donors if symmetric else np.arange(PHOTOS)
    rows = np.flatnonzero(given.query)
    ((_, ranking),) = rankings(vectors[rows], rows, vectors, labels, given, [(donors, in_gallery)])
    for row, indices in zip(rows, ranking.indices, strict=True):
        expected = [
            p for p in order_of(row, vectors, labels, given) if (donors[p] if symmetric else p) != donors[row]
        ]
        assert indices[indices >= 0].tolist() == expected


def test_a_small_gallery_lacks_ranks_and_nothing_else() -> None:
    vectors = unit(np.array([[1, 0], [1, 0.1], [0, 1]]))
    labels, query = np.array([1, 1, 2]), np.array([True, False, False])
    value = told(vectors, labels, QueryGallerySplit(query, ~query, np.array([0, 1, 1]))).iloc[0]
    assert (value["average_precision"], value["cmc_10"], value["single_shot_cmc_10"]) == (1, 1, 1)


def test_the_file_keeps_who_is_asked_among_whom(tmp_path: Path) -> None:
    vectors, labels, given = crowd(6)
    names = [str(n) for n in range(PHOTOS)]
    for known in (given, None):
        written = Embeddings(names, labels, np.ones(PHOTOS, bool), {(CLEAN, 0): vectors}, {}, known)
        written.write(tmp_path / "embeddings.npz")
        read = embeddings.read(tmp_path / "embeddings.npz")
        assert list(read.views) == [(CLEAN, 0)]
        assert (read.given is None) == (known is None)
        if read.given is not None:
            for name in ("query", "gallery", "camera"):
                np.testing.assert_array_equal(getattr(read.given, name), getattr(given, name))
