"""The attribution score: how much of what moves an embedding lies on the object (docs/methods.md, section 3).

Smoothed gradients (SmoothGrad; Smilkov et al. 2017) of the distance between a photo's embedding and that of a
black photo, compared with the object's mask, as Kobs & Hotho 2022 do. Two variants share every backward pass:

``ref``     the published one: the loss's own distance, channels added with signs, then the absolute value;
``robust``  cosine for every loss, absolute values channel by channel: opposite channels cannot cancel; by true masks where the
            dataset has them, so that a masker's faults are none of the model's.

For embeddings of unit length the Euclidean distance is d = sqrt(2 - 2s) of the cosine similarity s, hence its
gradient is that of s times -1/d: one gradient of s serves both distances exactly.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import product

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from bgbias import progress, seeds
from bgbias.attribution.noise import add_noise, draw_noise
from bgbias.attribution.score import Truth, read_masks, row_of, score_maps, score_photo
from bgbias.attribution.settings import Attribution
from bgbias.compute.device import autocast, keep_freed_memory
from bgbias.compute.transfer import to_device, to_host
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
    truth: Truth | None = None,
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
    passes = PASSES.get(reference.device.type, PASSES["cpu"])
    step = max(1, passes // settings.samples)
    trusted = [name for name in photos.table.ids if name in photos.usable]
    groups = [trusted[start : start + step] for start in range(0, len(trusted), step)]
    key_of = dict(zip(photos.table.ids, photos.table.keys, strict=True))

    def score_groups() -> Iterator[Tensor]:
        for ids in groups:
            views = to_device(torch.from_numpy(np.stack([photos.clean(name) for name in ids])), device)
            x = network.preprocess(views.permute(0, 3, 1, 2).float())
            keys = [seeds.key(*key_of[name]) for name in ids]
            maps = gradient_maps(network, x, keys, reference, distance, settings, passes)
            masks = read_masks(photos, ids)
            true_masks = read_masks(photos, ids, truth) if truth else masks
            yield from score_maps(torch.cat((maps["ref"], maps["robust"])), torch.cat((masks, true_masks)))

    rows: dict[tuple[str, str], dict[str, object]] = {}
    kept: dict[str, np.ndarray] = {}
    with progress.showing(len(trusted), "attribution") as done:
        scored = to_host(score_groups())
        for ids, numbers, maps in zip(groups, scored, scored, strict=True):
            for number, (variant, name) in enumerate(product(VARIANTS, ids)):
                rows[name, variant] = row_of(name, variant, numbers[number])
                if variant == "ref" and len(kept) < keep and not maps[number].isnan().any():
                    kept[name] = maps[number].numpy().astype(np.float16)
            done(len(ids))
    for name, variant in product(photos.table.ids, VARIANTS):
        if name not in photos.usable:
            truth_of = truth if variant == "robust" else None
            rows[name, variant], _ = score_photo(photos, name, variant, "untrusted mask", truth_of)
    ref = np.array(list(kept.values()), np.float16).reshape(-1, photos.size, photos.size)
    frame = pd.DataFrame([rows[one] for one in product(photos.table.ids, VARIANTS)])
    return frame, {"ids": np.array(list(kept), dtype=str), "ref": ref}


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
    normalised: float32 [B, H, W] on their device, by variant.

    ``embed`` gives unit vectors [N, d] in evaluation mode, ``reference`` is one [d]; ``distance`` (l2 or cosine) is that of
    ``ref``. All noisy views are made, and at most ``passes`` of them go through the network at once.
    """
    if distance not in ("l2", "cosine"):
        raise ValueError(f"distance must be l2 or cosine, not {distance!r}")
    numbers = draw_noise(keys, (settings.samples, *x.shape[1:]), str(x.device))
    views = add_noise(x, numbers.to(x.dtype), settings.noise)
    parts = [
        _measure_views(embed, part, reference, distance, settings.precision) for part in views.split(passes)
    ]
    of_views = (torch.cat(strengths) for strengths in zip(*parts, strict=True))
    maps = (strengths.unflatten(0, (-1, settings.samples)).mean(1).float() for strengths in of_views)
    return dict(zip(VARIANTS, maps, strict=True))


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
