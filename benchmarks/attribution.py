"""Attribution scores, against the published loop and against captum, and against forward and backward passes alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks import Contender, Figure, Measured, peer
from benchmarks._project import random_model

PEER, CAPTUM = "published loop", "captum's NoiseTunnel"
OURS = {"fp32": "bgbias, fp32", "bf16": "bgbias, bf16"}
LIMITS = {"fp32": "forward and backward alone, fp32", "bf16": "forward and backward alone, bf16"}
FASTER = {"fp32": 1.5, "bf16": 2.5}
SAMPLES = 25
PHOTOS = {"cpu": 2, "cuda": 40}


def contenders(device: str, tiny: bool) -> Iterator[Contender]:
    import torch

    from bgbias.attribution.smoothgrad import reference_embedding
    from bgbias.models.inference import for_inference
    from bgbias.toy.render import specimens

    photos = 1 if tiny else PHOTOS[torch.device(device).type]
    model = random_model("tiny" if tiny else "bn_inception", device).eval()
    pictures, masks = specimens(photos, model.input_size)
    x = model.preprocess(torch.from_numpy(pictures).to(device).permute(0, 3, 1, 2).float())
    soft = torch.from_numpy(masks / 255)
    network = for_inference(model)
    reference = reference_embedding(network)
    yield Contender(PEER, "peer", lambda: _published(model, x, soft, reference))
    yield peer(CAPTUM, "captum", lambda: _captum(model, x, soft, reference))
    for precision in OURS:
        yield Contender(OURS[precision], "ours", _ours(network, x, soft, reference, precision))
        yield Contender(LIMITS[precision], "limit", _alone(network, x, reference, precision))


def judge(measured: Measured) -> list[Figure]:
    figures = []
    for precision, ours in OURS.items():
        bar = FASTER[precision] if measured.device == "cpu" else None
        figures += [
            measured.ratio(f"times as fast as the {PEER}, {precision}", PEER, ours, at_least=bar),
            measured.ratio(f"times as fast as {CAPTUM}, {precision}", CAPTUM, ours),
            measured.ratio(
                f"share of the speed of passes alone, {precision}", LIMITS[precision], ours, at_least=0.9
            ),
        ]
        apart = np.abs(np.subtract(measured.results[ours], measured.results[PEER])).max()
        figures.append(Figure(f"largest difference of scores from the {PEER}'s, {precision}", [apart]))
    return figures


def _published(model: Any, x: Any, masks: Any, reference: Any) -> list[float]:
    """As the paper's code does it: a photo at a time, one backward pass that fills the weights' gradients too."""
    import torch

    from bgbias.attribution.smoothgrad import add_noise, draw_noise

    scores = []
    for n, photo in enumerate(x):
        drawn = draw_noise(torch.empty(SAMPLES, *photo.shape), f"benchmark|{n}").to(photo)
        views = add_noise(photo[None], drawn[None], 0.15).requires_grad_()
        model.requires_grad_(True)
        (model(views) @ reference).mean().backward()
        assert views.grad is not None
        scores.append(_score(views.grad.mean(1).abs().sum(0), masks[n]))
    return scores


def _captum(model: Any, x: Any, masks: Any, reference: Any) -> Callable[[], list[float]]:
    from captum.attr import NoiseTunnel, Saliency

    tunnel = NoiseTunnel(Saliency(lambda views: model(views) @ reference))

    def run() -> list[float]:
        scores = []
        for n, photo in enumerate(x):
            noise = 0.15 * float(photo.max() - photo.min())
            found = tunnel.attribute(
                photo[None], nt_samples=SAMPLES, nt_type="smoothgrad", stdevs=noise, abs=False
            )
            scores.append(_score(found[0].mean(0).abs(), masks[n]))
        return scores

    return run


def _ours(network: Any, x: Any, masks: Any, reference: Any, precision: Any) -> Callable[[], list[float]]:
    from bgbias.attribution.settings import Attribution
    from bgbias.attribution.smoothgrad import PASSES, gradient_maps

    settings = Attribution(images=None, samples=SAMPLES, noise=0.15, precision=precision)
    keys = [f"benchmark|{n}" for n in range(len(x))]

    def run() -> list[float]:
        maps = gradient_maps(network, x, keys, reference, "cosine", settings, PASSES[x.device.type])
        return [_score(ref, mask) for ref, mask in zip(maps["ref"], masks, strict=True)]

    return run


def _alone(network: Any, x: Any, reference: Any, precision: str) -> Callable[[], None]:
    """What no attribution can do without: the folded network there and back, for as many views, to the input only."""
    import torch

    from bgbias.attribution.smoothgrad import PASSES
    from bgbias.compute.device import autocast

    views = torch.cat([photo.expand(SAMPLES, -1, -1, -1) for photo in x]).contiguous(
        memory_format=torch.channels_last
    )

    def run() -> None:
        for batch in views.split(PASSES[x.device.type]):
            batch.requires_grad_()
            with autocast(x.device.type, precision):
                embeddings = network(batch)
            torch.autograd.grad((embeddings @ reference).sum(), batch)

    return run


def _score(strengths: Any, mask: Any) -> float:
    from bgbias.attribution.score import normalise, score

    return score(normalise(strengths.detach().cpu()), mask)
