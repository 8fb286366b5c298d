"""May photos be embedded and scored for attribution in bf16? A trained MobileNetV2 on birds, against itself in float32."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks import Contender, Figure, Measured

TITLE = "bf16 and float32: ImageNet's MobileNetV2 at 224 with a random embedding layer, birds of 50 classes, a disc as mask"
DEVICES = ("cpu", "cuda")
THREADS = None
ROUNDS = 1
BACKBONE, WEIGHTS = "mobilenet_v2_tf", "shared:weights/mobilenet_v2_imagenet.safetensors"
PHOTOS, EVERY = "shared:cub200_first50.tgz", 6  # of 2,889 photos
ATTRIBUTED, SAMPLES = 32, 25
PRECISIONS = ("fp32", "bf16")
# Of docs/results/cub50.md: two thirds of the sd over draws of backgrounds (.0024 to .0036), a tenth of that of scores over
# photos (.08 to .1).
MAP_AT_R, SCORE = 0.002, 0.008


def contenders(device: str, tiny: bool) -> Iterator[Contender]:
    from bgbias.files.places import source
    from bgbias.models.backbones.mobilenet_v2 import Params
    from bgbias.models.inference import for_inference
    from bgbias.models.model import build_model
    from bgbias.seeds import torch_generator

    absent = [name for name in (WEIGHTS, PHOTOS) if not source(name).exists()]
    if absent:
        for precision in PRECISIONS:
            yield Contender(
                precision, "ours", None, f"{source(absent[0])} is absent (set BGBIAS_SHARED_DATA)"
            )
        return
    photos, labels = _photos(6, 1) if tiny else _photos(None, EVERY)
    model = build_model(
        BACKBONE, Params(weights=WEIGHTS), 128, torch_generator("precision"), weights=source(WEIGHTS)
    )
    network = for_inference(model.to(device))
    for precision in PRECISIONS:
        yield Contender(
            precision, "ours", partial(_numbers, network, photos, labels, device, precision, tiny)
        )


def judge(measured: Measured) -> list[Figure]:
    if missing := measured.missing.get("fp32", ""):
        return [Figure("MAP@R moves by", [], at_most=MAP_AT_R, missing=missing)]
    (exact, scores), (coarse, moved) = (measured.results[p] for p in PRECISIONS)
    figures = [
        Figure("MAP@R in float32", [exact]),
        Figure("MAP@R moves by", [abs(coarse - exact)], at_most=MAP_AT_R),
    ]
    for variant, values in scores.items():
        apart = np.subtract(moved[variant], values)
        figures += [
            Figure(f"mean attribution score in float32, {variant}", [float(np.mean(values))]),
            Figure(f"the mean of photos' scores moves by, {variant}", [abs(float(apart.mean()))]),
            Figure(
                f"photos' scores move by, root mean square, {variant}",
                [float(np.sqrt(np.mean(apart**2)))],
                at_most=SCORE,
            ),
        ]
    return figures


def _numbers(
    network: Any, photos: list[Any], labels: Any, device: str, precision: Any, tiny: bool
) -> tuple[float, dict[str, list[float]]]:
    """MAP@R of the backbone's features, and attribution scores of some photos, both variants, with a disc for a mask."""
    import torch

    from bgbias.attribution.score import normalise, score
    from bgbias.attribution.settings import Attribution
    from bgbias.attribution.smoothgrad import PASSES, VARIANTS, gradient_maps, reference_embedding
    from bgbias.evaluation.metrics import map_at_r
    from bgbias.evaluation.retrieval import neighbours
    from bgbias.models.inference import embed_views
    from bgbias.models.settings import How

    found = embed_views(network, iter(photos), How(device, precision, pooled=True))
    quality = float(np.nanmean(map_at_r.per_query(neighbours(found, labels, found, labels))))
    shown = np.stack(photos[:: max(1, len(photos) // ATTRIBUTED)][: 1 if tiny else ATTRIBUTED])
    x = network.preprocess(torch.from_numpy(shown).to(device).permute(0, 3, 1, 2).float())
    settings = Attribution(samples=2 if tiny else SAMPLES, precision=precision)
    keys = [f"precision|{n}" for n in range(len(x))]
    maps = gradient_maps(
        network,
        x,
        keys,
        reference_embedding(network),
        "l2",
        settings,
        PASSES[x.device.type],
    )
    rows, columns = np.mgrid[-1 : 1 : x.shape[2] * 1j, -1 : 1 : x.shape[3] * 1j]
    middle = torch.from_numpy((rows**2 + columns**2 < 0.5).astype(np.float64))
    return quality, {
        v: [score(normalise(strengths), middle) for strengths in getattr(maps, v)] for v in VARIANTS
    }


def _photos(count: int | None, every: int) -> tuple[list[Any], Any]:
    """Centre crops uint8 [224, 224, 3] of every so many photos, and their classes as numbers."""
    from bgbias.files.archives import members
    from bgbias.files.pictures import is_picture
    from bgbias.files.places import source
    from bgbias.images import pixels
    from bgbias.models.backbones.mobilenet_v2 import TENSORFLOW as FACTS

    crops, classes = [], []
    chosen = itertools.islice(members(source(PHOTOS), is_picture), 0, None, every)
    for name, data in itertools.islice(chosen, count):
        resized = pixels.resize_short(pixels.decode(data, name), FACTS.resize)
        crops.append(pixels.centre_crop(resized, FACTS.input_size))
        classes.append(name.split("/")[-2])
    return crops, np.unique(classes, return_inverse=True)[1]
