"""The attribution score: how much of what moves an embedding lies on the object (docs/methods.md, section 3).

Smoothed gradients (SmoothGrad; Smilkov et al. 2017) of the distance between a photo's embedding and that of a
black photo, compared with the object's mask, as Kobs & Hotho 2022 do. Two variants share every backward pass:

``ref``     the published one: the loss's own distance, channels added with signs, then the absolute value;
``robust``  cosine for every loss, absolute values channel by channel: opposite channels cannot cancel; by true masks where the
            dataset has them, so that a masker's faults are none of the model's.

For embeddings of unit length the Euclidean distance is d = sqrt(2 - 2s) of the cosine similarity s, hence its
gradient is that of s times -1/d: one gradient of s serves both distances exactly.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from bgbias import progress, seeds
from bgbias.attribution.score import NoScoreError, score_photo
from bgbias.attribution.settings import Attribution
from bgbias.compute.device import autocast, keep_freed_memory, threads
from bgbias.compute.transfer import prefetch, to_host
from bgbias.evaluation.photos import EvaluationPhotos
from bgbias.models.inference import for_inference
from bgbias.models.model import EmbeddingModel

VARIANTS = ("ref", "robust")
PASSES = {"cpu": 25, "cuda": 250}  # noisy views that go through a network at once; bounds its memory


def attribute_photos(
    model: EmbeddingModel,
    photos: EvaluationPhotos,
    distance: str,
    settings: Attribution,
    device: str = "cpu",
    keep: int = 0,
    truth: Callable[[str], np.ndarray | None] | None = None,
) -> tuple[pd.DataFrame, dict[str, np.ndarray]]:
    """Scores of both variants for every photo, and the first ``keep`` normalised maps of ``ref``.

    ``truth`` gives a photo's true object, bool [S, S], or None where it is not known: ``robust`` is scored by it, ``ref`` by
    the mask as published.

    Table: image_id, variant, score (NaN: none), mask_fraction (the object's share of the crop; NaN without a
    mask), skipped (why there is no score). Maps: ids [K] and ref float16 [K, H, W]. A photo whose mask is not
    trusted is not scored.
    """
    keep_freed_memory()  # backward passes over 25 views: twice as fast
    network = for_inference(model).to(device)
    reference = reference_embedding(network)
    rows: list[dict[str, object]] = []
    ref_maps: dict[str, np.ndarray] = {}
    stream = _map_photos(network, photos, reference, distance, settings)
    for image_id, maps in progress.track(stream, len(photos.table), "attribution"):
        for variant in VARIANTS:
            strengths = maps[variant] if maps else NoScoreError("untrusted mask")
            true_mask = truth(image_id) if truth and variant == "robust" else None
            row, attribution = score_photo(photos, image_id, variant, strengths, true_mask)
            if variant == "ref" and attribution is not None and len(ref_maps) < keep:
                ref_maps[image_id] = attribution.numpy().astype(np.float16)
            rows.append(row)
    ref = np.array(list(ref_maps.values()), np.float16).reshape(-1, photos.size, photos.size)
    return pd.DataFrame(rows), {"ids": np.array(list(ref_maps), dtype=str), "ref": ref}


def reference_embedding(model: EmbeddingModel) -> Tensor:
    """The embedding [d] of a black photo, which every photo is compared with."""
    weight = model.embedder.weight
    black = torch.zeros(1, 3, model.input_size, model.input_size, device=weight.device, dtype=weight.dtype)
    with torch.no_grad():
        return model(model.preprocess(black))[0]


def gradient_maps(
    embed: Callable[[Tensor], Tensor],
    x: Tensor,
    keys: Sequence[str],
    reference: Tensor,
    distance: str,
    settings: Attribution,
    passes: int = PASSES["cpu"],
) -> dict[str, Tensor]:
    """Mean gradient strength over noisy views of photos x [B, 3, H, W] (normalised), each with its noise key, before it is
    normalised: float32 [B, H, W] on the CPU, by variant.

    ``embed`` gives unit vectors [N, d] in evaluation mode, ``reference`` is one [d]; ``distance`` (l2 or cosine) is that of
    ``ref``. At most ``passes`` views go through the network at once.
    """
    step = max(1, passes // settings.samples)
    groups = ((x[i : i + step], keys[i : i + step]) for i in range(0, len(x), step))
    strengths = list(_measure_groups(embed, groups, reference, distance, settings, passes))
    return dict(zip(VARIANTS, torch.cat(strengths, dim=1), strict=True))


def _map_photos(
    model: EmbeddingModel, photos: EvaluationPhotos, reference: Tensor, distance: str, settings: Attribution
) -> Iterator[tuple[str, dict[str, Tensor]]]:
    """Each photo's id and maps [H, W] by variant in the table's order; none where its mask is not trusted."""
    passes = PASSES.get(reference.device.type, PASSES["cpu"])
    step = max(1, passes // settings.samples)
    pairs = list(zip(photos.table.ids, photos.table.keys, strict=True))
    trusted = [(image_id, seeds.key(*key)) for image_id, key in pairs if image_id in photos.usable]

    def groups() -> Iterator[tuple[Tensor, Sequence[str]]]:
        for start in range(0, len(trusted), step):
            ids, keys = zip(*trusted[start : start + step], strict=True)
            views = torch.from_numpy(np.stack([photos.clean(image_id) for image_id in ids]))
            yield model.preprocess(views.permute(0, 3, 1, 2).float()), keys

    strengths = _measure_groups(model, groups(), reference, distance, settings, passes)
    maps = (dict(zip(VARIANTS, one, strict=True)) for group in strengths for one in group.unbind(1))
    for image_id, _ in pairs:
        yield image_id, next(maps) if image_id in photos.usable else {}


@dataclass(frozen=True)
class _NoisyPhotos:
    """Normalised photos [B, 3, H, W], and the numbers that make noise of each, [B, samples, 3, H, W]."""

    photos: Tensor
    numbers: Tensor


def _measure_groups(
    embed: Callable[[Tensor], Tensor],
    groups: Iterable[tuple[Tensor, Sequence[str]]],
    reference: Tensor,
    distance: str,
    settings: Attribution,
    passes: int,
) -> Iterator[Tensor]:
    """Of each group of photos with their keys, float32 [2, B, H, W] on the CPU: ``ref`` and ``robust``.

    Noise is the processor's, whatever the device; for a GPU it is drawn while the group before goes through the network.
    """
    if distance not in ("l2", "cosine"):
        raise ValueError(f"distance must be l2 or cosine, not {distance!r}")
    samples, device = settings.samples, str(reference.device)

    def draw() -> Iterator[_NoisyPhotos]:
        # One number follows from the other, so that a photo's noise is one thread's work; it is drawn where a GPU fetches it.
        with ThreadPoolExecutor(threads()) as pool:
            for x, keys in groups:
                noise = torch.empty(len(keys), samples, *x.shape[1:], pin_memory=device.startswith("cuda"))
                list(pool.map(draw_noise, noise, keys))
                yield _NoisyPhotos(x, noise.to(x.dtype))

    def strengths() -> Iterator[Tensor]:
        for group in prefetch(draw(), device) if device.startswith("cuda") else draw():
            views = add_noise(group.photos, group.numbers, settings.noise)
            parts = [
                _measure_views(embed, part, reference, distance, settings.precision)
                for part in views.split(passes)
            ]
            yield torch.stack(
                [torch.cat(v).unflatten(0, (-1, samples)).mean(1).float() for v in zip(*parts, strict=True)]
            )

    return to_host(strengths())


def draw_noise(noise: Tensor, key: str) -> Tensor:
    """Fill a photo's part [samples, 3, H, W], float32, with standard normal numbers.

    They depend on ``key`` and the size alone: every model, batch and device sees the same.
    """
    return noise.normal_(generator=seeds.torch_generator("attribution", key))


def add_noise(photos: Tensor, numbers: Tensor, noise: float) -> Tensor:
    """Views [B * samples, 3, H, W] of photos [B, 3, H, W], from the numbers drawn for each: ``noise`` times a photo's range."""
    ranges = photos.amax((1, 2, 3)) - photos.amin((1, 2, 3))
    return (photos[:, None] + (noise * ranges).view(-1, 1, 1, 1, 1) * numbers).flatten(0, 1)


def _measure_views(
    embed: Callable[[Tensor], Tensor], views: Tensor, reference: Tensor, distance: str, precision: str
) -> tuple[Tensor, Tensor]:
    """Per view: |channel mean| of the gradient of ``distance``, channel mean of |.| of cosine; [N, H, W]."""
    views = views.contiguous(memory_format=torch.channels_last).requires_grad_()
    with torch.enable_grad():
        with autocast(views.device.type, precision):
            embeddings = embed(views)
        similarity = (embeddings * reference).sum()
        (gradient,) = torch.autograd.grad(similarity, views)
    signed = gradient.mean(1).abs()
    if distance == "l2":
        apart = (embeddings.detach() - reference).norm(dim=1)
        # The norm has no gradient at 0; PyTorch's is 0 there.
        signed = signed * torch.where(apart > 0, 1 / apart, 0.0).view(-1, 1, 1)
    return signed, gradient.abs().mean(1)
