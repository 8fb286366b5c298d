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
from benchmarks._setup import normalise, random_model
from bgbias.attribution import score as scores
from bgbias.attribution.settings import Attribution
from bgbias.attribution.smoothgrad import (
    PASSES,
    VARIANTS,
    add_noise,
    draw_noise,
    gradient_maps,
    reference_embedding,
)
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
SAMPLES, NOISE = 25, 0.15
PHOTOS = {"cpu": 2, "cuda": 40}


def attribution(device: str, photos: int | None = None, backbone: str = "bn_inception") -> Case:
    model = random_model(backbone, device).eval()
    pictures, of_pictures = specimens(photos or PHOTOS[torch.device(device).type], model.input_size)
    x, masks = normalise(model, pictures, device), torch.from_numpy(of_pictures / 255)
    network = for_inference(model)
    reference = reference_embedding(network)
    views = x.repeat_interleave(SAMPLES, dim=0).contiguous(memory_format=torch.channels_last)
    ours, limits, figures = {}, {}, []
    for precision, bar in zip(PRECISIONS, (1.5, 2.5) if device == "cpu" else (None, None), strict=True):
        name, alone = f"bgbias, {precision}", f"forward and backward alone, {precision}"
        settings = Attribution(samples=SAMPLES, noise=NOISE, precision=precision)
        ours[name] = partial(_score_ours, network, x, masks, reference, settings)
        limits[alone] = partial(_pass_both_ways, network, views, reference, precision)
        figures += [
            Figure(f"times as fast as the {LOOP}, {precision}", ratio(LOOP, name), at_least=bar),
            Figure(f"times as fast as {CAPTUM}, {precision}", ratio(CAPTUM, name)),
            Figure(f"share of the speed of passes alone, {precision}", ratio(alone, name), at_least=0.9),
            Figure(f"largest difference of scores from the {LOOP}'s, {precision}", difference(name, LOOP)),
        ]
    captum = partial(_score_captum, model, x, masks, reference) if find_spec("captum") else MISSING
    peers = {LOOP: partial(_score_published, model, x, masks, reference), CAPTUM: captum}
    return Case(ours=ours, peers=peers, limits=limits, figures=figures)


def _compute_maps(
    network: Any, x: Tensor, reference: Tensor, distance: str, settings: Attribution
) -> dict[str, Tensor]:
    """Maps of normalised photos, both variants."""
    keys = [f"benchmark|{n}" for n in range(len(x))]
    return gradient_maps(network, x, keys, reference, distance, settings, PASSES[x.device.type])


def _score_ours(
    network: Any, x: Tensor, masks: Tensor, reference: Tensor, settings: Attribution
) -> list[float]:
    return [*map(_score_map, _compute_maps(network, x, reference, "cosine", settings)["ref"], masks)]


def _score_map(strengths: Tensor, mask: Tensor) -> float:
    return scores.score(scores.normalise(strengths.detach().cpu()), mask)


def _score_published(model: Any, x: Tensor, masks: Tensor, reference: Tensor) -> list[float]:
    """As the paper's code does it: a photo at a time, one backward pass that fills the weights' gradients too."""
    model.requires_grad_(True)
    result = []
    for n, photo in enumerate(x):
        noise = draw_noise(torch.empty(SAMPLES, *photo.shape), f"benchmark|{n}").to(photo)
        views = add_noise(photo[None], noise[None], NOISE).requires_grad_()
        (model(views) @ reference).mean().backward()
        assert views.grad is not None
        result.append(_score_map(views.grad.mean(1).abs().sum(0), masks[n]))
    return result


def _score_captum(model: Any, x: Tensor, masks: Tensor, reference: Tensor) -> list[float]:
    from captum.attr import NoiseTunnel, Saliency

    tunnel = NoiseTunnel(Saliency(lambda views: model(views) @ reference))
    options = {"nt_samples": SAMPLES, "nt_type": "smoothgrad", "abs": False}
    result = []
    for photo, mask in zip(x, masks, strict=True):
        noise = NOISE * float(photo.max() - photo.min())
        (gradient,) = tunnel.attribute(photo[None], stdevs=noise, **options)
        result.append(_score_map(gradient.mean(0).abs(), mask))
    return result


def _pass_both_ways(network: Any, views: Tensor, reference: Tensor, precision: str) -> None:
    """What no attribution can do without: the folded network there and back, for as many views, to the input only."""
    kind = views.device.type
    for batch in views.split(PASSES[kind]):
        batch.requires_grad_()
        with autocast(kind, precision):
            embeddings = network(batch)
        torch.autograd.grad((embeddings @ reference).sum(), batch)


# Soft masks by the full U²-Net, against onnxruntime as rembg uses it. The weights are random: they do not matter to speed.

REMBG = "rembg's session (onnxruntime)"
BATCH, BATCHES = {"cpu": 4, "cuda": 32}, {"cpu": 1, "cuda": 8}


def masks(device: str, size: int = 320, net: str = "u2net") -> Case:
    kind = torch.device(device).type
    photos = pictures(BATCH[kind] * BATCHES[kind], size)
    ours, limits, figures = {}, {}, []
    for precision, bar in zip(PRECISIONS, (0.9, 1.5), strict=True):
        name, alone = f"bgbias, {precision}", f"the network alone, {precision}"
        masker = random_masker(net, size, precision, device)
        ours[name] = partial(masker, photos)
        if kind == "cpu":
            figures.append(Figure(f"times as fast as {REMBG}, {precision}", ratio(REMBG, name), at_least=bar))
            continue
        limits[alone] = partial(_pass_batches, masker, torch.rand(BATCH[kind], 3, size, size, device=device))
        what = f"share of the speed of the network alone, {precision}"
        figures.append(Figure(what, ratio(alone, name), at_least=0.9))
        figures.append(Figure(f"masks, {precision}", rate(name, len(photos)), unit="a second"))
    peers = {REMBG: _rembg(random_net(net), photos, size)} if kind == "cpu" else {}
    return Case(ours=ours, peers=peers, limits=limits, figures=figures)


def pictures(count: int, size: int) -> list[np.ndarray]:
    """Four toys over and over, twice as large as masks are made."""
    return [*np.repeat(specimens(4, 2 * size)[0], count // 4, axis=0)]


def random_net(name: str) -> U2Net:
    """Always the same weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return NETS[name]().eval()


def random_masker(net: str, size: int, precision: Precision, device: str) -> SaliencyMasker:
    """The project's masker around these weights."""
    batch = BATCH[torch.device(device).type]
    params = SaliencyParams(input_size=size, batch_size=batch, precision=precision)
    return SaliencyMasker(random_net(net), params, torch.device(device))


def _pass_batches(masker: SaliencyMasker, inputs: Tensor) -> None:
    """As many passes through the masker's network, of pictures that lie in the GPU's memory."""
    for _ in range(BATCHES["cuda"]):
        masker._saliency(inputs)


def _rembg(net: nn.Module, photos: list[np.ndarray], size: int) -> Run:
    """A photo at a time, as rembg 2.0.19 does it: its session's threads, its arithmetic before and after."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = int(os.environ["OMP_NUM_THREADS"])
    graph = io.BytesIO()
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

BIRDS, GROCERIES = "cub200_first50.tgz", "grocery_store.zip"
BACKBONE, WEIGHTS = "mobilenet_v2_tf", "weights/mobilenet_v2_imagenet.safetensors"
MASK_WEIGHTS = "weights/u2netp.safetensors"
# Of docs/results/cub50.md: two thirds of the sd over draws of backgrounds (.0024 to .0036), a tenth of that of scores over
# photos (.08 to .1).
MAP_AT_R, SCORE = 0.002, 0.008


def precision(
    device: str, photos: int | None = None, every: int = 6, attributed: int = 32, samples: int = 25
) -> Case:
    """``photos``: of every so many of 2,889 birds, all unless given."""

    def prepare() -> dict[Precision, Run]:
        weights = f"shared:{WEIGHTS}"
        params, generator = Params(weights=weights), torch_generator("precision")
        model = build_model(BACKBONE, params, 128, generator, weights=source(weights)).to(device)
        network = for_inference(model)
        crops, classes = [], []
        for name, bird in _decode(BIRDS, every, photos):
            crops.append(pixels.centre_crop(pixels.resize_short(bird, model.resize), model.input_size))
            classes.append(name.split("/")[-2])
        labels = np.unique(classes, return_inverse=True)[1]
        x = normalise(network, np.stack(crops[:: max(1, len(crops) // attributed)][:attributed]), device)
        rows, columns = np.mgrid[-1 : 1 : x.shape[2] * 1j, -1 : 1 : x.shape[3] * 1j]
        discs = torch.from_numpy((rows**2 + columns**2 < 0.5).astype(np.float64)).expand(len(x), -1, -1)
        reference = reference_embedding(network)

        def measure(precision: Precision) -> dict[str, Any]:
            vectors = embed_views(network, iter(crops), How(device, precision, pooled=True))
            per_query = map_at_r.per_query(neighbours(vectors, labels, vectors, labels))
            settings = Attribution(samples=samples, precision=precision)
            maps = _compute_maps(network, x, reference, "l2", settings)
            scored = {variant: [*map(_score_map, maps[variant], discs)] for variant in VARIANTS}
            return {"map_at_r": np.nanmean(per_query), **scored}

        return {precision: partial(measure, precision) for precision in PRECISIONS}

    def exact(what: str) -> Values:
        return lambda m: np.mean(m.results["fp32"][what])

    def moves(what: str, power: int = 1) -> Values:
        """By the mean, or by the root mean square."""
        return lambda m: (
            abs(np.mean(np.subtract(*(m.results[p][what] for p in PRECISIONS)) ** power)) ** (1 / power)
        )

    figures = [
        Figure("MAP@R in float32", exact("map_at_r")),
        Figure("MAP@R moves by", moves("map_at_r"), at_most=MAP_AT_R),
    ]
    for variant in VARIANTS:
        what = f"photos' scores move by, root mean square, {variant}"
        figures += [
            Figure(f"mean attribution score in float32, {variant}", exact(variant)),
            Figure(f"the mean of photos' scores moves by, {variant}", moves(variant)),
            Figure(what, moves(variant, power=2), at_most=SCORE),
        ]
    return Case(ours=_unless_absent(prepare, WEIGHTS, BIRDS), figures=figures)


def mask_precision(device: str, size: int = 320, photos: int = 32) -> Case:
    """``photos`` of each set: every 20th."""

    def prepare() -> dict[Precision, Run]:
        sets = {name: [picture for _, picture in _decode(name, 20, photos)] for name in (BIRDS, GROCERIES)}

        def mask(masker: SaliencyMasker) -> dict[str, list[Mask]]:
            return {name: masker(chosen) for name, chosen in sets.items()}

        options = {"weights": f"shared:{MASK_WEIGHTS}", "input_size": size}
        params = {p: SaliencyParams(**options, precision=p) for p in PRECISIONS}
        return {p: partial(mask, build_masker("u2netp", params[p], device)) for p in PRECISIONS}

    def ious(name: str, summarise: Callable[[list[float]], float]) -> Values:
        return lambda m: summarise([*map(_iou, *(m.results[p][name] for p in PRECISIONS))])

    figures = [Figure("times as fast in bf16", ratio("fp32", "bf16"))]
    for name in (BIRDS, GROCERIES):
        what = f"mean IoU of bf16 with float32 at threshold 128, {name}"
        figures += [
            Figure(what, ious(name, fmean)),
            # bf16 may become the default where every mask stays what it is, not the masks in the mean.
            Figure(f"least IoU, {name}", ious(name, min), at_least=0.99),
        ]
    return Case(ours=_unless_absent(prepare, MASK_WEIGHTS, BIRDS, GROCERIES), figures=figures)


def _iou(exact: Mask, coarse: Mask) -> float:
    a, b = exact.alpha >= 128, coarse.alpha >= 128
    return float((a & b).sum() / (a | b).sum()) if (a | b).any() else 1.0


def _unless_absent(prepare: Callable[[], Mapping[Precision, Run]], *files: str) -> Mapping[str, Run | str]:
    """Both precisions, or that one of the shared files is not here."""
    absent = [source(f"shared:{file}") for file in files if not source(f"shared:{file}").exists()]
    missing = f"{absent[0]} is absent (set BGBIAS_SHARED_DATA)" if absent else ""
    return {**prepare()} if not missing else dict.fromkeys(PRECISIONS, missing)


def _decode(archive: str, every: int, count: int | None) -> Iterator[tuple[str, np.ndarray]]:
    """Name and pixels of every so many pictures of a shared archive."""
    chosen = itertools.islice(members(source(f"shared:{archive}"), is_picture), 0, None, every)
    return ((name, pixels.decode(data, name)) for name, data in itertools.islice(chosen, count))
