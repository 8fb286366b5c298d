"""Retrieval is exact, and its order depends on the embeddings alone, whose file keeps all that it needs."""

import tracemalloc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import faiss
import numpy as np
import pytest
from rankings import embedded, order, random_unit, unit

from bgbias.errors import UserError
from bgbias.evaluation import embeddings, retrieval
from bgbias.evaluation.conditions import CLEAN, RANDOM_BACKGROUND
from bgbias.evaluation.retrieval import Neighbours, neighbours
from bgbias.photos.places import Places
from bgbias.photos.query_gallery import QueryGallerySplit

Points = tuple[np.ndarray, np.ndarray]


def random_points(n: int, dim: int = 16, classes: int = 5, seed: int = 0) -> Points:
    generator = np.random.default_rng(seed)
    labels = generator.integers(classes, size=n)
    return unit(generator.normal(size=(classes, dim))[labels] + generator.normal(size=(n, dim))), labels


def with_duplicates(n: int, copies: int, seed: int = 1) -> Points:
    """Photos of which ``copies``, of all classes, have one embedding: ties straddle every k-th place."""
    embeddings, labels = random_points(n, seed=seed)
    where = np.random.default_rng(seed).choice(n, copies, replace=False)
    embeddings[where] = embeddings[where[0]]
    return embeddings, labels


DOUBLED = with_duplicates(90, 45)[0]
MOVED = unit(DOUBLED + 0.3 * random_unit(2, 90, 16))
MOVED[::3] = DOUBLED[::3]


def test_order_is_that_of_the_definition() -> None:
    collapsed = np.tile(DOUBLED[:1], (60, 1))
    for queries, gallery, k, exclude_self in (
        (MOVED, DOUBLED, 1, True),
        (MOVED[:15], DOUBLED, 7, False),
        (MOVED, DOUBLED, 40, True),
        (DOUBLED, DOUBLED, 20, True),
        (-DOUBLED, DOUBLED, 89, True),  # each query's own photo is the farthest
        (collapsed, collapsed, 30, True),
    ):
        asked, offered = np.arange(len(queries)) % 7, np.arange(len(gallery)) % 6
        found = neighbours(queries, asked, gallery, offered, k=k, exclude_self=exclude_self)
        for row, ranked in enumerate(found.indices.tolist()):
            assert ranked == order(queries[row], gallery, {row} if exclude_self else ())[:k]
        np.testing.assert_array_equal(found.same_label, offered[found.indices] == asked[:, None])
        assert found.relevant.tolist() == [(offered == label).sum() - exclude_self for label in asked]


def find_order(points: Points, k: int) -> np.ndarray:
    embeddings, labels = points
    return neighbours(embeddings, labels, embeddings, labels, k=k).indices


def stable_order(points: Points, k: int) -> list[list[int]]:
    return [order(query, points[0], {row})[:k] for row, query in enumerate(points[0])]


@pytest.mark.parametrize("sizes", [(1, 1, 0), (7, 999, 1), (64, 2**20, 300)])
def test_chunk_sizes_do_not_change_the_order(monkeypatch: pytest.MonkeyPatch, sizes: tuple[int, ...]) -> None:
    points = with_duplicates(200, 80)
    for name, size in zip(("QUERIES_PER_SEARCH", "BLOCK", "SPARE_CANDIDATES"), sizes, strict=True):
        monkeypatch.setattr(retrieval, name, size)
    np.testing.assert_array_equal(find_order(points, 25), stable_order(points, 25))


def device_with_errors(size: float) -> Callable[..., Any]:
    """A search whose similarities are off by up to ``size`` and whose ties come in any order."""
    generator = np.random.default_rng(5)

    def search(block: np.ndarray, gallery: np.ndarray, k: int) -> Points:
        similarity = block.astype(np.float64) @ gallery.T.astype(np.float64)
        similarity += generator.uniform(-size, size, similarity.shape)
        index = np.argsort(-similarity, axis=1)[:, :k]
        return np.take_along_axis(similarity, index, axis=1).astype(np.float32), index

    return lambda gallery, k, device: (partial(search, gallery=gallery, k=k), 1)


def test_rounding_of_the_device_does_not_change_the_order(monkeypatch: pytest.MonkeyPatch) -> None:
    points = with_duplicates(500, 200)
    # Besides exact duplicates, rivals nearer to each other than the device can tell.
    points[0][300:340] = unit(points[0][300:301] + 1e-6 * np.random.default_rng(6).standard_normal((40, 16)))
    expected = stable_order(points, 30)
    np.testing.assert_array_equal(find_order(points, 30), expected)
    for error in (5e-7, 0.1):
        monkeypatch.setattr(retrieval, "_faiss", device_with_errors(error))
        np.testing.assert_array_equal(find_order(points, 30), expected)


def test_beside_a_gpu_that_faiss_cannot_use_every_thread_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faiss, "get_num_gpus", lambda: 0)
    monkeypatch.setattr(faiss, "omp_get_max_threads", lambda: 3)
    pool = Mock(wraps=ThreadPoolExecutor)
    monkeypatch.setattr(retrieval, "ThreadPoolExecutor", pool)
    embeddings, labels = with_duplicates(60, 20)
    neighbours(embeddings, labels, embeddings, labels, k=5, device="cuda")
    pool.assert_called_once_with(3)


@pytest.mark.gpu
def test_a_gpu_gives_the_same_order() -> None:
    if not faiss.get_num_gpus():
        pytest.skip("faiss sees no GPU")
    embeddings, labels = with_duplicates(900, 600)
    on_gpu = neighbours(embeddings, labels, embeddings, labels, k=20, device="cuda").indices
    np.testing.assert_array_equal(on_gpu, find_order((embeddings, labels), 20))


def test_k_reaches_the_largest_class_and_at_least_rank_8_and_missing_ranks_are_no_hits() -> None:
    embeddings, _ = random_points(60, seed=8)
    labels = np.array([0] * 40 + [1] * 19 + [2])
    found = neighbours(embeddings, labels, embeddings, labels)
    assert found.relevant.tolist() == [39] * 40 + [18] * 19 + [0]
    assert found.indices.shape == (60, 39)
    for photos in (0, 1, 4):
        few, same = embeddings[:photos], np.zeros(photos, int)
        found = neighbours(few, same, few, same)
        there = max(photos - 1, 0)
        assert found.indices.shape == (photos, 8)
        assert (found.indices[:, there:] == -1).all()
        assert found.same_label.tolist() == [[True] * there + [False] * (8 - there)] * photos


def test_ranks_that_were_not_kept_are_refused_and_r_is_each_querys_own() -> None:
    hits = np.array([[1, 1, 1], [1, 1, 1], [1, 0, 1]], dtype=bool)
    n = Neighbours(hits, np.array([2, 0, 3]), np.zeros((3, 3), dtype=np.int64))
    assert n.within_r().tolist() == [[True, True, False], [False] * 3, [True, False, True]]
    for refused in (lambda: n.top(4), Neighbours(hits, np.array([4, 0, 3]), n.indices).within_r):
        with pytest.raises(ValueError, match="3 neighbours a query were kept"):
            refused()


def test_an_unusable_embedding_is_named() -> None:
    embeddings, labels = random_points(30)
    for bad, role in ((np.nan, "query"), (np.inf, "gallery"), (0.0, "query"), (2.0, "gallery")):
        broken = embeddings.copy()
        broken[17] *= bad
        pair = (broken, embeddings) if role == "query" else (embeddings, broken)
        remedy = "Divide each vector by its length" if bad == 2 else "python -m bgbias"
        with pytest.raises(UserError, match=f"{role} image 17 has .*1 of 30 .*{remedy}"):
            neighbours(pair[0], labels, pair[1], labels)


def test_memory_is_a_copy_of_the_gallery_and_some_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many queries there are, and though ties send some of them through the whole gallery."""
    block = 2**16
    monkeypatch.setattr(retrieval, "BLOCK", block)
    monkeypatch.setattr(retrieval, "QUERIES_PER_SEARCH", 64)
    gallery, labels = random_points(30_000, dim=32)
    gallery[:200] = gallery[0]
    tracemalloc.start()
    neighbours(gallery[:512], labels[:512], gallery, labels, k=10, exclude_self=False)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert gallery.nbytes < peak < gallery.nbytes + 8 * 8 * block


# Files of embeddings.

LABELS = np.array([0, 0, 1, 1])
VIEWS = {
    view: random_unit(n, 4, 3)
    for n, view in enumerate([(CLEAN, 0), (RANDOM_BACKGROUND, 0), (RANDOM_BACKGROUND, 1), ("mixed_rand", 0)])
}
PLAIN = embedded(LABELS, VIEWS, usable=np.array([True, False, True, True]))
FULL = replace(
    PLAIN,
    donors={("mixed_rand", 0): np.array([2, 3, 0, 1])},
    given=QueryGallerySplit(LABELS > 0, LABELS >= 0, np.array([0, 1, 0, 1])),
    places=Places.of(list("abab"), LABELS, [("s", str(n)) for n in range(4)]),
    originals=np.array([0, 0, 2, 3]),
)


@pytest.mark.parametrize("kept", [PLAIN, FULL], ids=["plain", "all"])
def test_files_give_back_what_was_written(kept: embeddings.Embeddings, tmp_path: Path) -> None:
    kept.write(tmp_path / "embeddings.npz")
    again = embeddings.read(tmp_path / "embeddings.npz")
    assert again.ids == kept.ids
    assert list(again.views) == list(kept.views)
    for name, ours in vars(kept).items():
        theirs = getattr(again, name)
        if isinstance(ours, QueryGallerySplit | Places):
            ours, theirs = vars(ours), vars(theirs)
        np.testing.assert_equal(theirs, ours)
    assert embeddings.side_by_side([again, again]).originals is again.originals
