"""May masks be made in bf16? U²-Net-p with its trained weights on real photos, against itself in float32."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks import Contender, Figure, Measured

TITLE = "masks of the trained U²-Net-p at 320 pixels in bf16 and in float32"
DEVICES = ("cpu", "cuda")
THREADS = None
ROUNDS = 1
WEIGHTS, PHOTOS = "shared:weights/u2netp.safetensors", ("cub200_first50.tgz", "grocery_store.zip")
EACH, EVERY = 32, 20  # photos of each set: every 20th
PRECISIONS = ("fp32", "bf16")


def contenders(device: str, tiny: bool) -> Iterator[Contender]:
    from bgbias import plugins
    from bgbias.files.places import source

    u2netp = plugins.load("maskers", "u2netp")
    absent = [name for name in (WEIGHTS, *(f"shared:{p}" for p in PHOTOS)) if not source(name).exists()]
    if absent:
        for precision in PRECISIONS:
            yield Contender(
                precision, "ours", None, f"{source(absent[0])} is absent (set BGBIAS_SHARED_DATA)"
            )
        return
    pictures = {name: list(_pictures(name, 2 if tiny else EACH)) for name in PHOTOS}
    for precision in PRECISIONS:
        params = u2netp.Params(
            weights=WEIGHTS, input_size=64 if tiny else 320, batch_size=4, precision=precision
        )
        masker = u2netp.build(params, device)
        yield Contender(precision, "ours", partial(_masks, masker, pictures))


def judge(measured: Measured) -> list[Figure]:
    figures = [measured.ratio("times as fast in bf16", "fp32", "bf16")]
    for name in PHOTOS:
        missing = measured.missing.get("fp32", "")
        pairs = () if missing else zip(*(measured.results[p][name] for p in PRECISIONS), strict=True)
        values = [_iou(exact.alpha, coarse.alpha) for exact, coarse in pairs]
        figures.append(
            Figure(
                f"mean IoU of bf16 with float32 at threshold 128, {name}",
                [float(np.mean(values))] if values else [],
                missing=missing,
            )
        )
        # bf16 may become the default where every mask stays what it is, not the masks in the mean.
        figures.append(Figure(f"least IoU, {name}", [min(values)] if values else [], 0.99, missing=missing))
    return figures


def _masks(masker: Any, pictures: dict[str, list[Any]]) -> dict[str, list[Any]]:
    return {name: masker(chosen) for name, chosen in pictures.items()}


def _pictures(name: str, count: int) -> Iterator[Any]:
    from bgbias.files.archives import members
    from bgbias.files.pictures import is_picture
    from bgbias.files.places import source
    from bgbias.images.pixels import decode

    chosen = itertools.islice(members(source(f"shared:{name}"), is_picture), 0, None, EVERY)
    for member, data in itertools.islice(chosen, count):
        yield decode(data, member)


def _iou(a: np.ndarray, b: np.ndarray) -> float:
    a, b = a >= 128, b >= 128
    return float((a & b).sum() / max((a | b).sum(), 1)) if (a | b).any() else 1.0
