"""Retrieval of a whole test set, against the calculator that most papers use, and among a million photos; how costs grow."""

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator

from benchmarks import Case, Figure, Measured, Run, difference, exponents, rate, ratio, seconds
from benchmarks._album import Album, views
from benchmarks._models import frozen_model
from benchmarks._project import STEPS, scratch_folder, write_smallest
from bgbias import plugins
from bgbias.engine import graph
from bgbias.evaluation.embedding import embed
from bgbias.evaluation.retrieval import neighbours
from bgbias.masks.maskers._params import SaliencyParams
from bgbias.masks.saliency import SaliencyMasker
from bgbias.masks.u2net import u2netp
from bgbias.models.settings import How
from bgbias.seeds import generator
from bgbias.study import plan
from bgbias.study.params import load
from bgbias.toy.render import specimens

# Pulls R-precision to about a half, where the methods of the literature stand.
SPREAD = 1.45
TWINS = 0.005  # of the photos are exact copies of their neighbour in the table
OURS, PEER, LIMIT = "bgbias", "pytorch-metric-learning", "the multiplications alone"
# Ours, and what the calculator calls them.
METRICS = {
    "map_at_r": "mean_average_precision_at_r",
    "precision_at_1": "precision_at_1",
    "r_precision": "r_precision",
}
# Photos that are ranked again in another way, some of them copies of photos of other classes.
CHECKED = 4000


def clustered(photos: int, classes: int, dim: int, mixed: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Unit vectors float32 [photos, dim] and labels int64 [photos], classes of equal size.

    A photo and its copy are of one class, so that metrics do not depend on which of them comes first; with ``mixed``, copies
    are of any class.
    """
    rng = generator("benchmark embeddings", photos, classes, dim)
    labels = np.sort(np.arange(photos) % classes)
    centres = rng.standard_normal((classes, dim), dtype=np.float32)
    vectors = centres[labels] + SPREAD * rng.standard_normal((photos, dim), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    able = np.arange(photos - 1) if mixed else np.flatnonzero(labels[:-1] == labels[1:])
    copies = rng.choice(able, size=max(2, round(TWINS * photos)), replace=False)
    vectors[copies] = vectors[rng.permutation(copies) if mixed else copies + 1]
    return vectors, labels.astype(np.int64)


def retrieval(device: str, photos: int = 60_502, classes: int = 11_316, dim: int = 128) -> Case:
    vectors, labels = clustered(photos, classes, dim)
    on_cpu = device == "cpu"
    share = "share of the speed of the multiplications alone"
    figures = [
        Figure(f"times as fast as {PEER}", ratio(PEER, OURS), at_least=1.5 if on_cpu else None),
        Figure(share, ratio(LIMIT, OURS), at_least=0.75 if on_cpu else None),
        Figure(
            f"largest difference of the three metrics from {PEER}'s", difference(OURS, PEER), at_most=1e-6
        ),
        Figure(
            f"share of {CHECKED} queries ranked as float64 ranks them, equal ones in image order",
            lambda _: _share_ranked_exactly(device),
            at_least=1,
        ),
    ]
    if on_cpu:
        what = f"extra memory as a part of {PEER}'s"
        figures.append(Figure(what, lambda m: m.megabytes[OURS] / m.megabytes[PEER], at_most=1 / 50))
    else:
        figures.append(Figure("seconds", seconds(OURS), at_most=0.2, unit="s"))
    return Case(
        ours={OURS: lambda: score(vectors, labels, device)},
        peers={PEER: _calculator(vectors, labels, device)},
        limits={LIMIT: _multiplications(len(vectors), dim, device)},
        figures=figures,
    )


def score(vectors: np.ndarray, labels: np.ndarray, device: str) -> list[float]:
    """The metrics of a test set within itself."""
    ranked = neighbours(vectors, labels, vectors, labels, device=device)
    return [float(np.nanmean(plugins.load("metrics", name).per_query(ranked))) for name in METRICS]


def _calculator(vectors: np.ndarray, labels: np.ndarray, device: str) -> Callable[[], list[float]]:
    calculator = AccuracyCalculator(tuple(METRICS.values()), k="max_bin_count", device=torch.device(device))
    x, y = torch.from_numpy(vectors).to(device), torch.from_numpy(labels).to(device)

    def run() -> list[float]:
        values = calculator.get_accuracy(x, y, x, y, ref_includes_query=True)
        return [float(values[name]) for name in METRICS.values()]

    return run


def _multiplications(photos: int, dim: int, device: str) -> Callable[[], None]:
    """As many multiplications as there are between all pairs, in squares that suit the machine best."""
    side = min(2048, photos)
    a = torch.rand(side, side, device=device)
    b, out = torch.rand_like(a), torch.empty_like(a)

    def run() -> None:
        for _ in range(max(1, round(photos**2 * dim / side**3))):
            torch.mm(a, b, out=out)

    return run


def _share_ranked_exactly(device: str) -> float:
    """Of photos with copies in other classes, the share whose ranked gallery is that of float64 products, sorted stably.

    Similarity is defined on the vectors rounded to multiples of 2^-24 (see ``bgbias.evaluation.retrieval``).
    """
    vectors, labels = clustered(CHECKED, CHECKED // 10, 128, mixed=True)
    ranked = neighbours(vectors, labels, vectors, labels, device=device).indices
    rounded = np.rint(np.ldexp(vectors, 24).astype(np.float64))
    products = rounded @ rounded.T
    np.fill_diagonal(products, -np.inf)
    exact = np.argsort(-products, axis=1, kind="stable")[:, : ranked.shape[1]]
    return float((ranked == exact).all(axis=1).mean())


# Among a million photos memory stays that of the gallery, since queries come in blocks.


def retrieval_million(device: str, queries: int = 4096, photos: int = 1_000_000, dim: int = 128) -> Case:
    gallery, labels = clustered(photos, photos // 10, dim)
    asked = gallery[:queries], labels[:queries]
    figures = [Figure("queries", rate(OURS, queries), unit="a second")]
    if device == "cpu":
        what, own = "extra memory by the embeddings' own", gallery.nbytes / 2**20
        figures.append(Figure(what, lambda m: m.megabytes[OURS] / own, at_most=1.5))
    return Case(ours={OURS: partial(neighbours, *asked, gallery, labels, 10, False, device)}, figures=figures)


# Does the cost grow as it should: with photos, draws and seeds, and with the square of the photos in retrieval?

WITHIN = 0.1
PHOTOS, DRAWS = 8, 2


def growth(device: str, smaller: int = 1, doublings: int = 3) -> Case:
    """``smaller``: by how much all sizes are."""
    # The first size of each, what works at a size, and the power that its cost should grow with.
    growing: dict[str, tuple[int, Callable[[int], Run], int]] = {
        "embedding, photos": (64, lambda size: _embed(size, DRAWS), 1),
        "embedding, draws": (16, lambda size: _embed(PHOTOS, size), 1),
        "masks, photos": (8, _mask, 1),
        "retrieval, photos": (8000, _rank, 2),
        "planning, seeds": (32, _digest, 1),
    }
    ours: dict[str, Run] = {}
    figures = []
    for what, (first, prepare, power) in growing.items():
        sizes = [first // smaller * 2**n for n in range(1 + doublings)]
        ours |= {f"{what}: {size}": prepare(size) for size in sizes}
        slopes = partial(_fit_exponents, what, sizes)
        figures.append(Figure(f"exponent of {what}", slopes, power - WITHIN, power + WITHIN))
    return Case(ours=ours, figures=figures)


def _fit_exponents(what: str, sizes: list[int], measured: Measured) -> list[float]:
    times = zip(*(measured.seconds[f"{what}: {size}"] for size in sizes), strict=True)
    return exponents(sizes, list(times))


def _embed(photos: int, draws: int) -> Run:
    model = frozen_model("tiny", "cpu", dim=32)
    prepared = Album(photos, 4).evaluation(model.input_size)
    return partial(embed, model, prepared, views(draws), How(batch_size=8))


def _mask(photos: int) -> Run:
    params = SaliencyParams(input_size=64, batch_size=4)
    pictures = [*specimens(4, 64)[0]] * photos
    return partial(SaliencyMasker(u2netp(), params, torch.device("cpu")), pictures[:photos])


def _rank(photos: int) -> Run:
    vectors, labels = clustered(photos, photos // 5, 64)
    return partial(neighbours, vectors, labels, vectors, labels)


def _digest(seeds: int) -> Run:
    """The digests of all steps of a study, which Snakemake asks for before it plans anything."""
    path = write_smallest(scratch_folder(), seeds)

    def run() -> list[str]:
        study = load(path)
        return [graph.digest(study, step, cell=cell) for cell in plan.cells(study) for step in STEPS]

    return run
