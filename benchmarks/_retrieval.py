"""Retrieval metrics of a whole test set, against the calculator that most papers use; and among a million photos."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from benchmarks import Contender, Figure, Measured, peer
from bgbias import plugins, seeds

# Pulls R-precision to about a half, where the methods of the literature stand.
SPREAD = 1.45
TWINS = 0.005  # of the photos are exact copies of their neighbour in the table


def clustered(photos: int, classes: int, dim: int, mixed: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Unit vectors float32 [photos, dim] and labels int64 [photos], classes of equal size.

    A photo and its copy are of one class, so that metrics do not depend on which of them comes first; with ``mixed``, copies
    are of any class.
    """
    generator = seeds.generator("benchmark embeddings", photos, classes, dim)
    labels = np.sort(np.arange(photos) % classes)
    centres = generator.standard_normal((classes, dim), dtype=np.float32)
    vectors = centres[labels] + SPREAD * generator.standard_normal((photos, dim), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    able = np.arange(photos - 1) if mixed else np.flatnonzero(labels[:-1] == labels[1:])
    copies = generator.choice(able, size=max(2, round(TWINS * photos)), replace=False)
    vectors[copies] = vectors[generator.permutation(copies) if mixed else copies + 1]
    return vectors, labels.astype(np.int64)


OURS, PEER, LIMIT = "bgbias", "pytorch-metric-learning", "the multiplications alone"
METRICS = ("map_at_r", "precision_at_1", "r_precision")
# Photos that are ranked again in another way, some of them copies of photos of other classes.
CHECKED = 4000


def contenders(device: str, tiny: bool) -> Iterator[Contender]:
    classes, dim = (60, 16) if tiny else (11_316, 128)
    vectors, labels = clustered(photos(tiny), classes, dim)
    yield Contender(OURS, "ours", lambda: _ours(vectors, labels, device))
    yield peer(PEER, "pytorch_metric_learning", lambda: _calculator(vectors, labels, device))
    yield Contender(LIMIT, "limit", _multiplications(len(vectors), dim, device))


def judge(measured: Measured) -> list[Figure]:
    found, theirs = measured.results[OURS], measured.results[PEER]
    on_cpu = measured.device == "cpu"
    figures = [
        measured.ratio(f"times as fast as {PEER}", PEER, OURS, at_least=1.5 if on_cpu else None),
        measured.ratio(
            "share of the speed of the multiplications alone", LIMIT, OURS, at_least=0.75 if on_cpu else None
        ),
        Figure(
            f"largest difference of the three metrics from {PEER}'s",
            [max(abs(found[name] - theirs[name]) for name in METRICS)],
            at_most=1e-6,
        ),
        Figure(
            f"share of {CHECKED} queries ranked as float64 ranks them, equal ones in image order",
            [_agreement(measured.device)],
            at_least=1,
        ),
    ]
    if on_cpu:
        part = measured.megabytes[OURS] / measured.megabytes[PEER]
        figures.append(Figure(f"extra memory as a part of {PEER}'s", [part], at_most=1 / 50))
    else:
        figures.append(Figure("seconds", measured.seconds[OURS], at_most=0.2, unit="s"))
    return figures


def photos(tiny: bool) -> int:
    """How many are compared, each with all others."""
    return 600 if tiny else 60_502


def _ours(vectors: np.ndarray, labels: np.ndarray, device: str) -> dict[str, float]:
    from bgbias.evaluation.retrieval import neighbours

    ranked = neighbours(vectors, labels, vectors, labels, device=device)
    values = {name: plugins.load("metrics", name).per_query(ranked) for name in METRICS}
    return {name: float(np.nanmean(value)) for name, value in values.items()}


def _calculator(vectors: np.ndarray, labels: np.ndarray, device: str) -> Callable[[], dict[str, float]]:
    import torch
    from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator

    names = dict(zip(METRICS, ("mean_average_precision_at_r", "precision_at_1", "r_precision"), strict=True))
    calculator = AccuracyCalculator(tuple(names.values()), k="max_bin_count", device=torch.device(device))
    x, y = torch.from_numpy(vectors).to(device), torch.from_numpy(labels).to(device)

    def run() -> dict[str, float]:
        found = calculator.get_accuracy(x, y, x, y, ref_includes_query=True)
        return {ours: float(found[theirs]) for ours, theirs in names.items()}

    return run


def _multiplications(photos: int, dim: int, device: str) -> Callable[[], None]:
    """As many multiplications as there are between all pairs, in squares that suit the machine best."""
    import torch

    side = min(2048, photos)
    a = torch.rand(side, side, device=device)
    b, out = torch.rand_like(a), torch.empty_like(a)
    times = max(1, round(photos**2 * dim / side**3))

    def run() -> None:
        for _ in range(times):
            torch.mm(a, b, out=out)

    return run


def _agreement(device: str) -> float:
    """Of photos with copies in other classes, the share whose ranked gallery is that of float64 products, sorted stably.

    Similarity is defined on the vectors rounded to multiples of 2^-24 (see ``bgbias.evaluation.retrieval``).
    """
    from bgbias.evaluation.retrieval import neighbours

    vectors, labels = clustered(CHECKED, CHECKED // 10, 128, mixed=True)
    ranked = neighbours(vectors, labels, vectors, labels, device=device).indices
    rounded = np.rint(np.ldexp(vectors, 24).astype(np.float64))
    products = rounded @ rounded.T
    np.fill_diagonal(products, -np.inf)
    exact = np.argsort(-products, axis=1, kind="stable")[:, : ranked.shape[1]]
    return float((ranked == exact).all(axis=1).mean())


# Among a million photos memory stays that of the gallery, since queries come in blocks.

QUERIES, PHOTOS, DIM = 4096, 1_000_000, 128
GALLERY_MB = 4 * PHOTOS * DIM / 2**20


def million_contenders(device: str, tiny: bool) -> Iterator[Contender]:
    from bgbias.evaluation.retrieval import neighbours

    queries, photos, dim = (64, 2000, 16) if tiny else (QUERIES, PHOTOS, DIM)
    gallery, labels = clustered(photos, photos // 10, dim)
    run = partial(neighbours, gallery[:queries], labels[:queries], gallery, labels, 10, False, device)
    yield Contender(OURS, "ours", run)


def judge_million(measured: Measured) -> list[Figure]:
    figures = [measured.rate("queries", OURS, QUERIES, "a second")]
    if measured.device == "cpu":
        part = measured.megabytes[OURS] / GALLERY_MB
        figures.append(Figure("extra memory by the embeddings' own", [part], at_most=1.5))
    return figures
