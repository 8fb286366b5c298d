"""Networks at work: attribution scores, against the published loop and captum; masks, against onnxruntime as rembg uses it; and
what bf16 changes in both and in embeddings.
"""

import io
import itertools
import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib.util import find_spec
from statistics import fmean
from typing import Any, Literal

import numpy as np
import onnxruntime
import torch
from torch import Tensor, nn

from benchmarks import Case, Figure, Run, Values, difference, rate, ratio
from benchmarks._models import normalise, random_model
from bgbias.attribution import score as scores
from bgbias.attribution import smoothgrad
from bgbias.attribution.noise import add_noise, draw_noise
from bgbias.attribution.settings import Attribution
from bgbias.attribution.smoothgrad import PASSES, VARIANTS, reference_embedding
from bgbias.compute.device import autocast
from bgbias.evaluation.metrics import map_at_r
from bgbias.evaluation.retrieval import neighbours
from bgbias.files.archives import members
from bgbias.files.pictures import is_picture
from bgbias.files.places import source
from bgbias.images import pixels
from bgbias.masks.maskers._params import SaliencyParams
from bgbias.masks.policy import Mask
from bgbias.masks.saliency import SaliencyMasker, build_masker, mask_from, network_input
from bgbias.masks.u2net import NETS, U2Net
from bgbias.models.backbones.mobilenet_v2 import Params
from bgbias.models.inference import embed_views, for_inference
from bgbias.models.model import build_model
from bgbias.models.settings import How
from bgbias.seeds import torch_generator
from bgbias.toy.render import specimens

Precision = Literal["fp32", "bf16"]
PRECISIONS: tuple[Precision, Precision] = ("fp32", "bf16")

# Attribution scores, against the published loop and captum, and against forward and backward passes alone.

LOOP, CAPTUM = "published loop", "captum's NoiseTunnel"
MISSING = "captum is not installed; `make bench` installs it"
SAMPLES, NOISE = 25, Attribution().noise


def attribution(device: str, photos: int = 2, backbone: str = "bn_inception") -> Case:
    model = random_model(backbone, device).eval()
    pictures, of_pictures = specimens(photos, model.input_size)
    x, masks = normalise(model, pictures, device), torch.from_numpy(of_pictures).to(device)
    network = for_inference(model)
    reference = reference_embedding(network)
    views = x.repeat_interleave(SAMPLES, dim=0).contiguous(memory_format=torch.channels_last)

    def similarity(views: Tensor) -> Tensor:
        return model(views) @ reference

    def ours(precision: Precision) -> list[float]:
        maps = _compute_maps(network, x, reference, "cosine", SAMPLES, precision)
        return _score(maps["ref"], masks)

    def alone(precision: Precision) -> None:
        """What no attribution can do without: the folded network there and back, for as many views, to the input only."""
        for batch in views.split(PASSES[x.device.type]):
            batch.requires_grad_()
            with autocast(x.device.type, precision):
                embeddings = network(batch)
            torch.autograd.grad((embeddings @ reference).sum(), batch)

    figures = []
    for precision, bar in zip(PRECISIONS, (1.5, 2.5) if device == "cpu" else (None, None), strict=True):
        name, limit = f"bgbias, {precision}", f"forward and backward alone, {precision}"
        figures += [
            Figure(f"times as fast as the {LOOP}, {precision}", ratio(LOOP, name), at_least=bar),
            Figure(f"times as fast as {CAPTUM}, {precision}", ratio(CAPTUM, name)),
            Figure(f"share of the speed of passes alone, {precision}", ratio(limit, name), at_least=0.9),
            Figure(f"largest difference of scores from the {LOOP}'s, {precision}", difference(name, LOOP)),
        ]
    captum = partial(_score_by_captum, similarity, x, masks) if find_spec("captum") else MISSING
    return Case(
        ours={f"bgbias, {p}": partial(ours, p) for p in PRECISIONS},
        peers={LOOP: partial(_score_by_loop, similarity, x, masks), CAPTUM: captum},
        limits={f"forward and backward alone, {p}": partial(alone, p) for p in PRECISIONS},
        figures=figures,
    )


def _compute_maps(
    network: Any, x: Tensor, reference: Tensor, distance: str, samples: int, precision: Precision
) -> dict[str, Tensor]:
    """Maps of normalised photos, both variants."""
    settings, passes = Attribution(samples=samples, precision=precision), PASSES[x.device.type]
    step, parts = passes // samples, []
    for start in range(0, len(x), step):
        photos, keys = x[start : start + step], [str(n) for n in range(len(x))][start : start + step]
        parts.append(smoothgrad.gradient_maps(network, photos, keys, reference, distance, settings, passes))
    return {variant: torch.cat([part[variant] for part in parts]) for variant in VARIANTS}


def _score(strengths: Tensor, masks: Tensor) -> list[float]:
    scored: list[float] = scores.score_maps(strengths, masks)[0][:, 0].tolist()
    return scored


def _score_by_loop(similarity: Callable[[Tensor], Tensor], x: Tensor, masks: Tensor) -> list[float]:
    """As the paper's code does it: a photo at a time, one backward pass that fills the weights' gradients too."""
    result = []
    for n, photo in enumerate(x):
        numbers = draw_noise([str(n)], (SAMPLES, *photo.shape), str(photo.device))
        views = add_noise(photo[None], numbers, NOISE).requires_grad_()
        similarity(views).mean().backward()
        assert views.grad is not None
        result += _score(views.grad.mean(1).abs().sum(0)[None], masks[n][None])
    return result


def _score_by_captum(similarity: Callable[[Tensor], Tensor], x: Tensor, masks: Tensor) -> list[float]:
    from captum.attr import NoiseTunnel, Saliency

    options = {"nt_samples": SAMPLES, "nt_type": "smoothgrad", "abs": False}
    result = []
    for photo, mask in zip(x, masks, strict=True):
        noise = NOISE * float(photo.max() - photo.min())
        (gradient,) = NoiseTunnel(Saliency(similarity)).attribute(photo[None], stdevs=noise, **options)
        result += _score(gradient.detach().mean(0).abs()[None], mask[None])
    return result


# Soft masks by the full U²-Net, against onnxruntime as rembg uses it. The weights are random: they do not matter to speed.

REMBG = "rembg's session (onnxruntime)"


def masks(device: str, batch: int = 4, batches: int = 1, size: int = 320, net: str = "u2net") -> Case:
    photos = pictures(batch * batches, size)
    on_cpu = device == "cpu"
    ours, limits, figures = {}, {}, []
    for precision, bar in zip(PRECISIONS, (0.9, 1.5), strict=True):
        name, alone = f"bgbias, {precision}", f"the network alone, {precision}"
        masker = random_masker(net, size, batch, precision, device)
        ours[name] = partial(masker, photos)
        if on_cpu:
            figures.append(Figure(f"times as fast as {REMBG}, {precision}", ratio(REMBG, name), at_least=bar))
            continue
        inputs = torch.rand(batch, 3, size, size, device=device)
        limits[alone] = partial(_pass_batches, masker, inputs, batches)
        what = f"share of the speed of the network alone, {precision}"
        figures.append(Figure(what, ratio(alone, name), at_least=0.9))
        figures.append(Figure(f"masks, {precision}", rate(name, len(photos)), unit="a second"))
    peers = {REMBG: _rembg(random_net(net), photos, size)} if on_cpu else {}
    return Case(ours=ours, peers=peers, limits=limits, figures=figures)


def pictures(count: int, size: int) -> list[np.ndarray]:
    """Four toys over and over, twice as large as masks are made."""
    return [*np.repeat(specimens(4, 2 * size)[0], count // 4, axis=0)]


def random_net(name: str) -> U2Net:
    """Always the same weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return NETS[name]().eval()


def random_masker(net: str, size: int, batch: int, precision: Precision, device: str) -> SaliencyMasker:
    """The project's masker around these weights."""
    params = SaliencyParams(input_size=size, batch_size=batch, precision=precision)
    return SaliencyMasker(random_net(net), params, torch.device(device))


def _pass_batches(masker: SaliencyMasker, inputs: Tensor, batches: int) -> None:
    """As many passes through the masker's network, of pictures that lie in the GPU's memory."""
    for _ in range(batches):
        masker._saliency(inputs)


def _rembg(net: nn.Module, photos: list[np.ndarray], size: int) -> Run:
    """A photo at a time, as rembg 2.0.19 does it: its session's threads, its arithmetic before and after."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = int(os.environ["OMP_NUM_THREADS"])
    graph: Any = io.BytesIO()  # the types of the exporter know files alone
    with warnings.catch_warnings():
        # The older exporter needs no further package.
        warnings.simplefilter("ignore")
        inputs = (torch.zeros(1, 3, size, size),)
        torch.onnx.export(Published(net).eval(), inputs, graph, dynamo=False, input_names=["x"])
    session = onnxruntime.InferenceSession(graph.getvalue(), options, providers=["CPUExecutionProvider"])

    def mask(photo: np.ndarray) -> Mask:
        saliency = session.run(None, {"x": network_input(photo, size)[None]})[0][0, 0]
        return mask_from(saliency, *photo.shape[:2])

    return lambda: [mask(photo) for photo in photos]


class Published(nn.Module):
    """The published file has all seven maps, each behind a sigmoid."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return tuple(logits.sigmoid() for logits in self.net(x))


# May photos be embedded, scored for attribution and masked in bf16? Trained networks, against themselves in float32.

BIRDS, GROCERIES = "shared:cub200_first50.tgz", "shared:grocery_store.zip"
BACKBONE, WEIGHTS = "mobilenet_v2_tf", "shared:weights/mobilenet_v2_imagenet.safetensors"
# Of docs/results/cub50.md: two thirds of the sd over draws of backgrounds (.0024 to .0036), a tenth of that of scores over
# photos (.08 to .1).
MAP_AT_R, SCORE = 0.002, 0.008


def precision(
    device: str, photos: int | None = None, every: int = 6, attributed: int = 32, samples: int = 25
) -> Case:
    """``photos``: of every so many of 2,889 birds, all unless given."""
    params, generator = Params(weights=WEIGHTS), torch_generator("precision")
    model = build_model(BACKBONE, params, 128, generator, weights=source(WEIGHTS)).to(device)
    network = for_inference(model)
    reference = reference_embedding(network)
    crops, classes = [], []
    for name, bird in _decode(BIRDS, every, photos):
        crops.append(pixels.centre_crop(pixels.resize_short(bird, model.resize), model.input_size))
        classes.append(name.split("/")[-2])
    labels = np.unique(classes, return_inverse=True)[1]
    x = normalise(network, np.stack(crops[:: max(1, len(crops) // attributed)][:attributed]), device)
    rows, columns = np.mgrid[-1 : 1 : x.shape[2] * 1j, -1 : 1 : x.shape[3] * 1j]
    disc = torch.from_numpy(255 * (rows**2 + columns**2 < 0.5).astype(np.uint8)).to(device)

    def measure(precision: Precision) -> dict[str, Any]:
        vectors = embed_views(network, iter(crops), How(device, precision, pooled=True))
        per_query = map_at_r.per_query(neighbours(vectors, labels, vectors, labels))
        maps = _compute_maps(network, x, reference, "l2", samples, precision)
        scored = {variant: _score(maps[variant], disc.expand(len(x), -1, -1)) for variant in VARIANTS}
        return {"map_at_r": np.nanmean(per_query), **scored}

    def exact(what: str) -> Values:
        return lambda m: np.mean(m.results["fp32"][what])

    def moves(what: str) -> Values:
        return lambda m: abs(np.mean(np.subtract(*(m.results[p][what] for p in PRECISIONS))))

    def deviates(what: str) -> Values:
        return lambda m: np.sqrt(np.mean(np.subtract(*(m.results[p][what] for p in PRECISIONS)) ** 2))

    figures = [
        Figure("MAP@R in float32", exact("map_at_r")),
        Figure("MAP@R moves by", moves("map_at_r"), at_most=MAP_AT_R),
    ]
    for variant in VARIANTS:
        what = f"photos' scores move by, root mean square, {variant}"
        figures += [
            Figure(f"mean attribution score in float32, {variant}", exact(variant)),
            Figure(f"the mean of photos' scores moves by, {variant}", moves(variant)),
            Figure(what, deviates(variant), at_most=SCORE),
        ]
    return Case(ours={precision: partial(measure, precision) for precision in PRECISIONS}, figures=figures)


def mask_precision(device: str, size: int = 320, photos: int = 32) -> Case:
    """The trained U²-Net-p; ``photos`` of each set: every 20th."""
    sets = {name: [picture for _, picture in _decode(name, 20, photos)] for name in (BIRDS, GROCERIES)}
    ours: dict[str, Run] = {}
    for precision in PRECISIONS:
        weights = "shared:weights/u2netp.safetensors"
        params = SaliencyParams(weights=weights, input_size=size, precision=precision)
        masker = build_masker("u2netp", params, device)
        ours[precision] = partial(_mask_sets, masker, sets)

    def ious(name: str, summarise: Callable[[list[float]], float]) -> Values:
        return lambda m: summarise([*map(_iou, *(m.results[p][name] for p in PRECISIONS))])

    figures = [Figure("times as fast in bf16", ratio("fp32", "bf16"))]
    for name in sets:
        called = name.removeprefix("shared:")
        what = f"mean IoU of bf16 with float32 at threshold 128, {called}"
        figures.append(Figure(what, ious(name, fmean)))
        # bf16 may become the default where every mask stays what it is, not the masks in the mean.
        figures.append(Figure(f"least IoU, {called}", ious(name, min), at_least=0.99))
    return Case(ours=ours, figures=figures)


def _mask_sets(masker: SaliencyMasker, sets: Mapping[str, list[np.ndarray]]) -> dict[str, list[Mask]]:
    return {name: masker(photos) for name, photos in sets.items()}


def _iou(exact: Mask, coarse: Mask) -> float:
    a, b = exact.alpha >= 128, coarse.alpha >= 128
    return float((a & b).sum() / (a | b).sum()) if (a | b).any() else 1.0


def _decode(archive: str, every: int, count: int | None) -> Iterator[tuple[str, np.ndarray]]:
    """Name and pixels of every so many pictures of a shared archive."""
    chosen = itertools.islice(members(source(archive), is_picture), 0, None, every)
    return ((name, pixels.decode(data, name)) for name, data in itertools.islice(chosen, count))
