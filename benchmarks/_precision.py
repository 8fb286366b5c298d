"""May photos be masked, embedded and scored for attribution in bf16? Trained networks, against themselves in float32."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks import Contender, Figure, Measured

PRECISIONS = ("fp32", "bf16")
BIRDS, EVERY_BIRD = "shared:cub200_first50.tgz", 6  # of 2,889 photos


def _absent(*names: str) -> list[Contender]:
    """Contenders that cannot run, if one of the shared files is not here."""
    from bgbias.files.places import source

    gone = [source(name) for name in names if not source(name).exists()]
    missing = f"{gone[0]} is absent (set BGBIAS_SHARED_DATA)" if gone else ""
    return [Contender(precision, "ours", None, missing) for precision in PRECISIONS] if gone else []


def _pictures(name: str, every: int, count: int | None) -> Iterator[tuple[str, Any]]:
    """Name and pixels of every so many pictures of a shared archive."""
    from bgbias.files.archives import members
    from bgbias.files.pictures import is_picture
    from bgbias.files.places import source
    from bgbias.images.pixels import decode

    chosen = itertools.islice(members(source(name), is_picture), 0, None, every)
    return ((member, decode(data, member)) for member, data in itertools.islice(chosen, count))


# ImageNet's MobileNetV2 on birds.

BACKBONE, WEIGHTS = "mobilenet_v2_tf", "shared:weights/mobilenet_v2_imagenet.safetensors"
ATTRIBUTED, SAMPLES = 32, 25
# Of docs/results/cub50.md: two thirds of the sd over draws of backgrounds (.0024 to .0036), a tenth of that of scores over
# photos (.08 to .1).
MAP_AT_R, SCORE = 0.002, 0.008


def contenders(device: str, tiny: bool) -> Iterator[Contender]:
    from bgbias.files.places import source
    from bgbias.models.backbones.mobilenet_v2 import Params
    from bgbias.models.inference import for_inference
    from bgbias.models.model import build_model
    from bgbias.seeds import torch_generator

    if absent := _absent(WEIGHTS, BIRDS):
        yield from absent
        return
    photos, labels = _photos(6, 1) if tiny else _photos(None, EVERY_BIRD)
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
    reference = reference_embedding(network)
    maps = gradient_maps(network, x, keys, reference, "l2", settings, PASSES[x.device.type])
    rows, columns = np.mgrid[-1 : 1 : x.shape[2] * 1j, -1 : 1 : x.shape[3] * 1j]
    middle = torch.from_numpy((rows**2 + columns**2 < 0.5).astype(np.float64))
    return quality, {v: [score(normalise(strengths), middle) for strengths in maps[v]] for v in VARIANTS}


def _photos(count: int | None, every: int) -> tuple[list[Any], Any]:
    """Centre crops uint8 [224, 224, 3] of every so many photos, and their classes as numbers."""
    from bgbias.images import pixels
    from bgbias.models.backbones.mobilenet_v2 import TENSORFLOW as FACTS

    crops, classes = [], []
    for name, picture in _pictures(BIRDS, every, count):
        crops.append(pixels.centre_crop(pixels.resize_short(picture, FACTS.resize), FACTS.input_size))
        classes.append(name.split("/")[-2])
    return crops, np.unique(classes, return_inverse=True)[1]


# The trained U²-Net-p on real photos.

MASK_WEIGHTS, SETS = "shared:weights/u2netp.safetensors", ("cub200_first50.tgz", "grocery_store.zip")
EACH, EVERY = 32, 20  # photos of each set: every 20th


def mask_contenders(device: str, tiny: bool) -> Iterator[Contender]:
    from bgbias import plugins

    u2netp = plugins.load("maskers", "u2netp")
    if absent := _absent(MASK_WEIGHTS, *(f"shared:{name}" for name in SETS)):
        yield from absent
        return
    pictures = {
        name: [picture for _, picture in _pictures(f"shared:{name}", EVERY, 2 if tiny else EACH)]
        for name in SETS
    }

    def mask(masker: Any) -> dict[str, list[Any]]:
        return {name: masker(chosen) for name, chosen in pictures.items()}

    for precision in PRECISIONS:
        params = u2netp.Params(
            weights=MASK_WEIGHTS, input_size=64 if tiny else 320, batch_size=4, precision=precision
        )
        yield Contender(precision, "ours", partial(mask, u2netp.build(params, device)))


def judge_masks(measured: Measured) -> list[Figure]:
    figures = [measured.ratio("times as fast in bf16", "fp32", "bf16")]
    missing = measured.missing.get("fp32", "")
    for name in SETS:
        pairs = () if missing else zip(*(measured.results[p][name] for p in PRECISIONS), strict=True)
        values = [_iou(exact.alpha, coarse.alpha) for exact, coarse in pairs]
        what = f"mean IoU of bf16 with float32 at threshold 128, {name}"
        figures.append(Figure(what, [float(np.mean(values))] if values else [], missing=missing))
        # bf16 may become the default where every mask stays what it is, not the masks in the mean.
        figures.append(Figure(f"least IoU, {name}", [min(values)] if values else [], 0.99, missing=missing))
    return figures


def _iou(a: np.ndarray, b: np.ndarray) -> float:
    a, b = a >= 128, b >= 128
    return float((a & b).sum() / max((a | b).sum(), 1)) if (a | b).any() else 1.0
