"""Does the cost grow as it should: with photos, draws and seeds, and with the square of the photos in retrieval?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import Contender, Figure, Measured, exponents
from benchmarks._project import random_model, scratch_folder, write_smallest

# The sizes of each, which double, and the power that cost should grow with.
GROWING = {
    "embedding, photos": ((64, 128, 256, 512), 1),
    "embedding, draws": ((16, 32, 64, 128), 1),
    "masks, photos": ((8, 16, 32, 64), 1),
    "retrieval, photos": ((8000, 16000, 32000, 64000), 2),
    "planning, seeds": ((32, 64, 128, 256), 1),
}
WITHIN = 0.1
PHOTOS, DRAWS = 8, 2


def contenders(device: str, tiny: bool) -> Iterator[Contender]:
    makers = (_photos, _draws, _masks, _retrieval, _planning)
    for what, make in zip(GROWING, makers, strict=True):
        sizes = _sizes(what, tiny)
        for size, run in zip(sizes, make(sizes), strict=True):
            yield Contender(f"{what}: {size}", "ours", run)


def judge(measured: Measured) -> list[Figure]:
    figures = []
    for what, (_, power) in GROWING.items():
        sizes = _sizes(what, measured.tiny)
        times = zip(*(measured.seconds[f"{what}: {size}"] for size in sizes), strict=True)
        slopes = exponents(sizes, list(times))
        figures.append(Figure(f"exponent of {what}", slopes, power - WITHIN, power + WITHIN))
    return figures


def _sizes(what: str, tiny: bool) -> tuple[int, ...]:
    sizes = GROWING[what][0]
    return tuple(size // 4 for size in sizes[:3]) if tiny else sizes


def _photos(sizes: tuple[int, ...]) -> Iterator[Callable[[], Any]]:
    for size in sizes:
        yield _embedding(size, DRAWS)


def _draws(sizes: tuple[int, ...]) -> Iterator[Callable[[], Any]]:
    for size in sizes:
        yield _embedding(PHOTOS, size)


def _embedding(photos: int, draws: int) -> Callable[[], Any]:
    from benchmarks import _album
    from bgbias.evaluation import embedding
    from bgbias.models.backbones.tiny import FACTS
    from bgbias.models.inference import for_inference
    from bgbias.models.settings import How

    made = _album.album(photos, 4)
    served = _album.evaluation(made, FACTS.input_size)
    model = for_inference(random_model("tiny", dim=32))
    return lambda: embedding.embed(model, served, _album.views(draws), How(batch_size=8))


def _masks(sizes: tuple[int, ...]) -> Iterator[Callable[[], Any]]:
    import torch

    from bgbias.masks.maskers._params import SaliencyParams
    from bgbias.masks.saliency import SaliencyMasker
    from bgbias.masks.u2net import u2netp
    from bgbias.toy.render import specimens

    params = SaliencyParams(input_size=64, batch_size=4)
    masker = SaliencyMasker(u2netp(), params, torch.device("cpu"))
    pictures = list(specimens(4, 64)[0])
    for size in sizes:
        yield partial(masker, (pictures * size)[:size])


def _retrieval(sizes: tuple[int, ...]) -> Iterator[Callable[[], Any]]:
    from benchmarks._retrieval import clustered
    from bgbias.evaluation.retrieval import neighbours

    for size in sizes:
        vectors, labels = clustered(size, size // 5, 64)
        yield partial(neighbours, vectors, labels, vectors, labels)


def _planning(sizes: tuple[int, ...]) -> Iterator[Callable[[], Any]]:
    """The digests of all nodes of a study, which Snakemake asks for before it plans anything."""
    from bgbias.engine import graph
    from bgbias.study import plan
    from bgbias.study.params import load

    def digest_all(path: Path) -> list[str]:
        study = load(path)
        nodes = ("train", "embed", "score", "attribute")
        return [graph.digest(study, node, cell=cell) for cell in plan.cells(study) for node in nodes]

    for size in sizes:
        yield partial(digest_all, write_smallest(scratch_folder(), size))
