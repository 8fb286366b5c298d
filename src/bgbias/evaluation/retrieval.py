"""Who are the nearest neighbours of every query, exactly, and with ties broken by image order.

The order must not depend on the machine: float32 products of identical vectors differ in their last bits with
the block a BLAS puts them in, and what a heap does with equal scores is nobody's promise. So similarity is
*defined* here as the inner product of the embeddings rounded to multiples of 2^-24 (float32's own step just
below 1). Those products and all their partial sums are multiples of 2^-48 of size about 1 or less, which
float64 holds without rounding: any summation order, library or device gives the same number, and equal means
equal. faiss proposes candidates in float32; the error bound of its sums tells which queries have candidates too
close to each other to be in order for sure, which are sorted again by exact similarity, and which could still be
missing a neighbour: those few are ranked against the whole gallery.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from bgbias.errors import UserError

# Candidates beyond the k that are needed, so that near-ties at the k-th place rarely need the whole gallery.
SPARE_CANDIDATES = 4
# R@8 is the deepest rank that a metric asks of classes smaller than that.
DEEPEST_FIXED_RANK = 8
# Enough for the multiplications' speed, and few enough that threads end at about the same time.
QUERIES_PER_SEARCH = 1024
# Numbers in one float64 working block: 32 MB.
BLOCK = 2**22
UNIT_LENGTH_TOLERANCE = 1e-3
# One query in so many shows how exactly the device computes.
PROBED = 64
# In place of a query's similarity to itself: less than that of any two unit vectors.
SELF = -2.0


@dataclass(frozen=True)
class Neighbours:
    """The ranked gallery of N queries, best first, down to rank K.

    ``same_label`` bool [N, K]: is the neighbour of the query's class? ``relevant`` int64 [N]: R_i, the other
    photos of the query's class in the gallery. ``indices`` int64 [N, K]: positions in the gallery. Where the
    gallery has fewer than K photos, the missing ranks have index -1 and are of no class.
    """

    same_label: np.ndarray
    relevant: np.ndarray
    indices: np.ndarray

    @classmethod
    def none(cls, queries: int, depth: int) -> Neighbours:
        """No neighbours yet of so many queries, with room for so many ranks."""
        missing = np.full((queries, depth), -1)
        return cls(np.zeros(missing.shape, bool), np.zeros(queries, np.int64), missing)

    def __len__(self) -> int:
        return len(self.relevant)

    def top(self, k: int) -> np.ndarray:
        """``same_label`` of the first k ranks, bool [N, k]; ValueError if fewer were kept: no guessing."""
        depth = self.same_label.shape[1]
        if k > depth:
            raise ValueError(f"{depth} neighbours a query were kept, rank {k} was asked for")
        return self.same_label[:, :k]

    def within_r(self) -> np.ndarray:
        """rel_i(k) for k <= R_i and False after, bool [N, max R]. Raises ValueError as ``top`` does."""
        deepest = int(self.relevant.max(initial=0))
        return self.top(deepest) & (np.arange(deepest) < self.relevant[:, None])

    def without(self, gone: np.ndarray, fewer: np.ndarray | int, depth: int) -> Neighbours:
        """Down to rank ``depth`` without those that are ``gone``, bool [N, K]; of these ``fewer`` [N] were relevant."""
        order = np.argsort(gone, axis=1, kind="stable")[:, :depth]
        same, indices = (np.take_along_axis(a, order, axis=1) for a in (self.same_label, self.indices))
        return Neighbours(same, self.relevant - fewer, indices)

    def per_relevant(self, sums: np.ndarray) -> np.ndarray:
        """``sums`` [N] divided by R_i, float64 [N]; NaN for queries to skip: nobody to find (R_i = 0)."""
        none = np.full(len(self), np.nan)
        return np.divide(sums, self.relevant, out=none, where=self.relevant > 0)


def neighbours(
    queries: np.ndarray,
    query_labels: np.ndarray,
    gallery: np.ndarray,
    gallery_labels: np.ndarray,
    k: int | None = None,
    exclude_self: bool = True,
    device: str = "cpu",
) -> Neighbours:
    """The k nearest gallery photos of every query by cosine similarity, equal ones in gallery order.

    ``queries`` [N, d] and ``gallery`` [M, d] are unit vectors. With ``exclude_self``, query i and gallery
    photo i are the same photo (perhaps before different backgrounds) and i is removed from i's neighbours by
    its index, as duplicates demand. k is by default max(R, 8), what every metric needs. ``device`` "cuda"
    lets faiss search on a GPU; the answer is the same. Raises UserError, naming the image's position, for
    embeddings that are not finite or not of length 1.
    """
    relevant = count_equal(query_labels, gallery_labels) - exclude_self
    if k is None:
        k = max(int(relevant.max(initial=0)), DEEPEST_FIXED_RANK)
    # Symmetric retrieval hands over one array twice; check and round it once.
    rounded_gallery = round_embeddings(gallery, "gallery")
    rounded_queries = rounded_gallery if queries is gallery else round_embeddings(queries, "query")
    available = max(0, min(k, len(gallery) - exclude_self))
    indices = np.full((len(queries), k), -1, dtype=np.int64)
    if available and len(queries):
        for start, nearest in _search(rounded_queries, rounded_gallery, available, exclude_self, device):
            indices[start : start + len(nearest), :available] = nearest
    same_label = np.zeros(indices.shape, dtype=bool)
    same_label[:, :available] = gallery_labels[indices[:, :available]] == query_labels[:, None]
    return Neighbours(same_label, relevant, indices)


def count_equal(values: np.ndarray, among: np.ndarray) -> np.ndarray:
    """How many of ``among`` [M] equal each of ``values`` [N], int64 [N]."""
    ordered = np.sort(among)
    return np.searchsorted(ordered, values, side="right") - np.searchsorted(ordered, values)


def round_embeddings(embeddings: np.ndarray, role: str) -> np.ndarray:
    """The embeddings, checked to be finite unit vectors, on the grid of 2^-24 (exact in float32)."""
    rounded = np.empty(embeddings.shape, np.float32)
    length = np.empty(len(embeddings))
    rows = max(1, BLOCK // embeddings.shape[1])
    for start in range(0, len(embeddings), rows):
        part = np.asarray(embeddings[start : start + rows], np.float32)
        length[start : start + rows] = np.sqrt(np.einsum("nd,nd->n", part, part, dtype=np.float64))
        np.rint(part * np.float32(2.0**24), out=rounded[start : start + rows])
    rounded *= np.float32(2.0**-24)
    wrong = np.flatnonzero(~(np.abs(length - 1) <= UNIT_LENGTH_TOLERANCE))
    if len(wrong):
        i = wrong[0]
        finite = bool(np.isfinite(length[i]))
        what = f"length {length[i]:.6g}, not 1" if finite else "NaN or infinite numbers"
        hint = (
            "Look for a loss that is not finite in this model's history.csv, then train and embed it again:"
            " python -m bgbias train --help"
        )
        if finite and length[i] > 0:
            hint = "Divide each vector by its length."
        raise UserError(
            f"The embedding of {role} image {i} has {what} ({len(wrong)} of {len(embeddings)} are unusable). {hint}"
        )
    return rounded


def _search(
    queries: np.ndarray, gallery: np.ndarray, k: int, exclude_self: bool, device: str
) -> Iterator[tuple[int, np.ndarray]]:
    """Blocks (first query's position, indices int64 [n, k]) in exact order; k neighbours exist for sure."""
    n_candidates = min(len(gallery), k + exclude_self + SPARE_CANDIDATES)
    # |computed - exact| <= d u / (1 - d u) * |x|.|y| for a float32 inner product summed in any order,
    # u = 2^-24 (Higham 2002, section 3.1), and |x|.|y| <= 1 up to the tolerated lengths.
    error = 1.01 * gallery.shape[1] * 2.0**-24
    propose, searchers = _faiss(gallery, n_candidates, device)
    starts = range(0, len(queries), QUERIES_PER_SEARCH)
    blocks = [queries[start : start + QUERIES_PER_SEARCH] for start in starts]
    with ThreadPoolExecutor(searchers) as pool:
        proposals = pool.map(propose, blocks)
        for start, block, (approximate, candidates) in zip(starts, blocks, proposals, strict=True):
            # Without it no photo is the query itself: none is at -1.
            positions = np.arange(start, start + len(block)) if exclude_self else np.full(len(block), -1)
            last = approximate[:, -1].copy()
            # The query itself goes behind all others, which stay in order.
            is_own = candidates == positions[:, None]
            approximate[is_own] = SELF
            order = np.argsort(is_own, axis=1, kind="stable")
            approximate = np.take_along_axis(approximate, order, axis=1)
            candidates = np.take_along_axis(candidates, order, axis=1)
            nearest = candidates[:, :k].copy()
            # Similarities that differ by more than both their errors are in the right order already.
            close = (np.diff(approximate[:, : k + 1], axis=1) >= -2 * error).any(axis=1)
            close[::PROBED] = True
            rows = np.flatnonzero(close)
            exact = _similarities(block[rows], gallery, candidates[rows])
            exact[approximate[rows] == SELF] = SELF
            order = np.lexsort((candidates[rows], -exact), axis=1)[:, :k]
            nearest[rows] = np.take_along_axis(candidates[rows], order, axis=1)
            # Whoever was not proposed scored at most as much as the last candidate, give or take the error.
            unsure = (approximate[:, k - 1] - last <= 2 * error) & (n_candidates < len(gallery))
            # A device that computes more coarsely than that (TF32, say) is noticed by its errors on some queries.
            unsure |= (np.abs(approximate[rows] - exact) > error).any()
            rows = np.flatnonzero(unsure)
            rank_all = _rank_whole_gallery(block[rows], gallery, k, positions[rows])
            for row, ranked in zip(rows, rank_all, strict=True):
                nearest[row] = ranked
            yield start, nearest


def _faiss(gallery: np.ndarray, k: int, device: str) -> tuple[Any, int]:
    """A function from queries [n, d] to (similarity float32 [n, k], index int64 [n, k]), best first, and how many threads
    call it side by side.
    """
    import faiss

    # faiss searches at most 2048 neighbours on a GPU.
    if device.startswith("cuda") and k <= 2048 and faiss.get_num_gpus():
        index = faiss.IndexFlatIP(gallery.shape[1])
        index.add(gallery)
        number = int(device.partition(":")[2] or 0)
        on_gpu = faiss.index_cpu_to_gpu(_gpu_memory(number), number, index)
        return lambda block: on_gpu.search(block, k), 1

    def search(block: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        # Of the calling thread alone, which has blocks of its own: a team of threads waits for its slowest after every product.
        faiss.omp_set_num_threads(1)
        # The same exact search as IndexFlatIP without its copy of the gallery.
        return faiss.knn(block, gallery, k, metric=faiss.METRIC_INNER_PRODUCT)

    return search, int(faiss.omp_get_max_threads())


@cache
def _gpu_memory(number: int) -> Any:
    """What faiss works with on a GPU: to get it takes as long as a search, so that it is kept for the next one."""
    import faiss

    return faiss.StandardGpuResources()


def _similarities(queries: np.ndarray, gallery: np.ndarray, candidates: np.ndarray) -> np.ndarray:
    """Exact similarity of each query [n, d] to its own candidates [n, c], float64 [n, c]."""
    exact = np.empty(candidates.shape)
    # Small enough for the cache: the vectors are gathered and used at once.
    rows = max(1, BLOCK // 16 // (candidates.shape[1] * gallery.shape[1]))
    for start in range(0, len(queries), rows):
        chosen = gallery[candidates[start : start + rows]].astype(np.float64)
        vectors = queries[start : start + rows, :, None].astype(np.float64)
        exact[start : start + rows] = (chosen @ vectors)[:, :, 0]
    return exact


def _rank_whole_gallery(
    queries: np.ndarray, gallery: np.ndarray, k: int, positions: np.ndarray
) -> Iterator[np.ndarray]:
    """For each query, the first k of the whole gallery by exact similarity, then index: int64 [k]."""
    rows = max(1, BLOCK // len(gallery))
    columns = max(1, BLOCK // gallery.shape[1])
    for start in range(0, len(queries), rows):
        block = queries[start : start + rows].astype(np.float64)
        exact = np.empty((len(block), len(gallery)))
        for first in range(0, len(gallery), columns):
            exact[:, first : first + columns] = block @ gallery[first : first + columns].astype(np.float64).T
        exact[np.arange(len(gallery)) == positions[start : start + rows, None]] = -np.inf
        for similarity in exact:
            kth = np.partition(similarity, -k)[-k]
            nearest = np.flatnonzero(similarity >= kth)
            yield nearest[np.argsort(-similarity[nearest], kind="stable")[:k]]
