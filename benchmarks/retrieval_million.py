"""Retrieval among a million photos: memory stays that of the gallery, since queries come in blocks."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from benchmarks import Contender, Figure, Measured

TITLE = "4,096 queries among a million photos of 128 numbers"
DEVICES = ("cpu", "cuda")
THREADS = None
ROUNDS = 2
OURS = "bgbias"
MEMORY = (OURS,)
QUERIES, PHOTOS, DIM = 4096, 1_000_000, 128
GALLERY_MB = 4 * PHOTOS * DIM / 2**20


def contenders(device: str, tiny: bool) -> Iterator[Contender]:
    from benchmarks._embeddings import clustered
    from bgbias.evaluation.retrieval import neighbours

    queries, photos, dim = (64, 2000, 16) if tiny else (QUERIES, PHOTOS, DIM)
    gallery, labels = clustered(photos, photos // 10, dim)
    run = partial(neighbours, gallery[:queries], labels[:queries], gallery, labels, 10, False, device)
    yield Contender(OURS, "ours", run)


def judge(measured: Measured) -> list[Figure]:
    figures = [measured.rate("queries", OURS, QUERIES, "a second")]
    if measured.device == "cpu":
        part = measured.megabytes[OURS] / GALLERY_MB
        figures.append(Figure("extra memory by the embeddings' own", [part], at_most=1.5))
    return figures
