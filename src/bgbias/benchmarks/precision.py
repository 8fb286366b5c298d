"""May photos be embedded and scored for attribution in bf16? A trained MobileNetV2 on birds, against itself in float32."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from bgbias.benchmarks import Contender, Figure, Measured

TITLE = "numbers in bf16 and in float32: MobileNetV2 at 224, trained on ImageNet, on birds of 50 classes"
DEVICES = ("cpu", "cuda")
THREADS = None
ROUNDS = 1
BACKBONE, WEIGHTS = "mobilenet_v2_tf", "shared:weights/mobilenet_v2_imagenet.safetensors"
PHOTOS, EVERY = "shared:cub200_first50.tgz", 6  # of 2,889 photos
ATTRIBUTED, SAMPLES = 32, 25
PRECISIONS = ("fp32", "bf16")
# What a number may move by: a tenth of what a draw of backgrounds moves MAP@R by, and a tenth of a photo's interval of scores.
MAP_AT_R, SCORE = 0.002, 0.005


def contenders(device: str, tiny: bool) -> Iterator[Contender]:
    from bgbias.backbones.mobilenet_v2_tf import Params
    from bgbias.model import build_model, for_inference
    from bgbias.paths import source
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
    missing = measured.missing.get("fp32", "")
    figures = [measured.ratio("times as fast in bf16", "fp32", "bf16")]
    if missing:
        return [*figures, Figure("MAP@R moves by", [], at_most=MAP_AT_R, missing=missing)]
    (exact, scores), (coarse, moved) = (measured.results[p] for p in PRECISIONS)
    return [
        *figures,
        Figure("MAP@R in float32", [exact]),
        Figure("MAP@R moves by", [abs(coarse - exact)], at_most=MAP_AT_R),
        Figure("mean attribution score in float32", [float(np.mean(scores))]),
        Figure("the mean score moves by", [abs(float(np.mean(moved) - np.mean(scores)))], at_most=SCORE),
        Figure("the score that moves most, by", [float(np.abs(np.subtract(moved, scores)).max())]),
    ]


def _numbers(
    network: Any, photos: list[Any], labels: Any, device: str, precision: Any, tiny: bool
) -> tuple[float, list[float]]:
    """MAP@R of the backbone's features, and attribution scores of the first photos with respect to a mask in the middle."""
    import torch

    from bgbias.attribution import PASSES, gradient_maps, normalise, reference_embedding, score
    from bgbias.embedding import embed_views
    from bgbias.input_gradients import for_input_gradients
    from bgbias.metrics import map_at_r
    from bgbias.params import Attribution
    from bgbias.retrieval import neighbours

    found = embed_views(network, iter(photos), device, precision, pooled=True)
    quality = float(np.nanmean(map_at_r.per_query(neighbours(found, labels, found, labels))))
    shown = np.stack(photos[:: max(1, len(photos) // ATTRIBUTED)][: 1 if tiny else ATTRIBUTED])
    x = network.preprocess(torch.from_numpy(shown).to(device).permute(0, 3, 1, 2).float())
    settings = Attribution(samples=2 if tiny else SAMPLES, precision=precision)
    keys = [f"precision|{n}" for n in range(len(x))]
    maps = gradient_maps(
        for_input_gradients(network),
        x,
        keys,
        reference_embedding(network),
        "l2",
        settings,
        PASSES[x.device.type],
    )
    rows, columns = np.mgrid[-1 : 1 : x.shape[2] * 1j, -1 : 1 : x.shape[3] * 1j]
    middle = torch.from_numpy((rows**2 + columns**2 < 0.5).astype(np.float64))
    return quality, [score(normalise(strengths), middle) for strengths in maps.ref]


def _photos(count: int | None, every: int) -> tuple[list[Any], Any]:
    """Centre crops uint8 [224, 224, 3] of every so many photos, and their classes as numbers."""
    from bgbias import images
    from bgbias.archives import members
    from bgbias.backbones.mobilenet_v2_tf import FACTS
    from bgbias.fetching import is_picture
    from bgbias.paths import source

    crops, classes = [], []
    chosen = itertools.islice(members(source(PHOTOS), is_picture), 0, None, every)
    for name, data in itertools.islice(chosen, count):
        resized = images.resize_short(images.decode(data, name), FACTS.resize)
        crops.append(images.centre_crop(resized, FACTS.input_size))
        classes.append(name.split("/")[-2])
    return crops, np.unique(classes, return_inverse=True)[1]
