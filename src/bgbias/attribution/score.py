"""How much of a map's strength lies on the object: the published attribution score (docs/methods.md, section 3).

It is made of gradients (``smoothgrad.py``) and, as a second attribution, of similarity attention (section 7): where a model finds
a photo like another one of its class, which is the same one for every model.
"""

from collections.abc import Collection, Iterator
from math import ceil, floor, nan

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from bgbias import progress, seeds
from bgbias.attribution import similarity as attention
from bgbias.attribution.settings import Attribution
from bgbias.compute.device import autocast
from bgbias.evaluation.photos import EvaluationPhotos
from bgbias.models.inference import for_inference
from bgbias.models.model import EmbeddingModel
from bgbias.photos.table import ImageTable

QUANTILE = 0.99  # of a map's values counts as its maximum
VARIANT = "similarity"
PAIRS = {"cpu": 12, "cuda": 64}  # that go through a network at once


class NoScoreError(Exception):
    """This photo has no score; the text is the reason that tables count."""


def score_photo(
    photos: EvaluationPhotos,
    image_id: str,
    variant: str,
    strengths: Tensor | NoScoreError,
    truth: np.ndarray | None = None,
) -> tuple[dict[str, object], Tensor | None]:
    """A photo's row of the table, from its map [H, W] or the reason why there is none, and the normalised map if it has one.

    ``truth``: the object's pixels, bool [H, W]; without it they are those of the photo's mask.
    """
    row = {"image_id": image_id, "variant": variant, "score": nan, "mask_fraction": nan, "skipped": ""}
    attribution = None
    try:
        if photos.masks is None or image_id not in photos.masks:
            raise NoScoreError("no mask")
        mask = torch.from_numpy(photos.mask(image_id) / 255 if truth is None else truth.astype(np.float64))
        row["mask_fraction"] = float(mask.mean())
        if isinstance(strengths, NoScoreError):
            raise strengths
        attribution = normalise(strengths)
        row["score"] = score(attribution, mask)
    except NoScoreError as reason:
        row["skipped"] = str(reason)
    return row, attribution


def normalise(strengths: Tensor) -> Tensor:
    """A map [H, W] stretched to 0..1 (float64): its minimum to 0, its 0.99-quantile (linear) and above to 1.

    A map whose quantile is its minimum has no shape to speak of: ``NoScoreError``.
    """
    strengths = strengths.double()
    if not strengths.isfinite().all():
        raise NoScoreError("gradient not finite")
    low, high = strengths.min(), _find_quantile(strengths, QUANTILE)
    if high <= low:
        raise NoScoreError("constant map")
    return ((strengths - low) / (high - low)).clamp(0, 1)


def score(attribution: Tensor, mask: Tensor) -> float:
    """(a - f) / (1 - f) of a map [H, W] and a soft mask [H, W] in 0..1.

    a is the share of the attribution on the object, f the object's share of the picture: 1 when all of it
    lies on the object, 0 when it is spread evenly, negative when the background has more than its share.
    Without attribution, or where the mask is full (0/0) or empty (the formula would say 0 whatever the model
    does), there is no score: ``NoScoreError``.
    """
    attribution, mask = attribution.double(), mask.double()
    fraction, total = mask.mean(), attribution.sum()
    if fraction >= 1:
        raise NoScoreError("full mask")
    if fraction <= 0:
        raise NoScoreError("empty mask")
    if total <= 0:
        raise NoScoreError("empty map")
    on_object = (mask * attribution).sum() / total
    return float((on_object - fraction) / (1 - fraction))


def _find_quantile(values: Tensor, share: float) -> Tensor:
    """As ``torch.quantile`` computes it, to the last bit, without sorting them all: that takes longer than a GPU's passes."""
    rank = share * (values.numel() - 1)
    lower, upper = floor(rank), ceil(rank)
    ends = np.partition(values.numpy(), (lower, upper), axis=None)
    low, high = torch.from_numpy(ends[[lower, upper]])
    return torch.lerp(low, high, rank - lower)


def attribute_pairs(
    model: EmbeddingModel,
    photos: EvaluationPhotos,
    test: ImageTable,
    settings: Attribution,
    device: str = "cpu",
) -> pd.DataFrame:
    """Scores of every photo of ``photos``, whose partners are taken from all test photos; rows as those of ``attribute_photos``.

    A photo that is alone in its class has no score.
    """
    network = for_inference(model).to(device)
    partner_of = partners(test, photos.table.ids)
    maps = _compute_maps(network, photos, partner_of, settings)
    stream = progress.track(maps, len(photos.table), "similarity attention")
    return pd.DataFrame([score_photo(photos, name, VARIANT, strengths)[0] for name, strengths in stream])


def partners(test: ImageTable, ids: Collection[str]) -> dict[str, str]:
    """For each of ``ids`` another photo of its class, drawn by the names of the two alone; none where there is no other."""
    key_of = dict(zip(test.ids, test.keys, strict=True))
    partner_of = {}
    for _, members in test.frame.groupby("label", sort=False)["image_id"]:
        for name in members[members.isin(list(ids))]:
            others = [other for other in members if other != name]
            if others:
                partner_of[name] = min(
                    others, key=lambda o: seeds.number(seeds.key("similarity", *key_of[name], *key_of[o]))
                )
    return partner_of


def _compute_maps(
    model: EmbeddingModel, photos: EvaluationPhotos, partner_of: dict[str, str], settings: Attribution
) -> Iterator[tuple[str, Tensor | NoScoreError]]:
    """Each photo's id and map [S, S] in the table's order, or why there is none."""
    kind, device = model.embedder.weight.dtype, model.embedder.weight.device
    step, ids = PAIRS.get(device.type, PAIRS["cpu"]), photos.table.ids
    for start in range(0, len(ids), step):
        group = ids[start : start + step]
        pairs = [name for name in group if name in photos.usable and name in partner_of]
        map_of: dict[str, Tensor] = {}
        if pairs:
            views = [photos.clean(name) for name in (*pairs, *(partner_of[name] for name in pairs))]
            x = torch.from_numpy(np.stack(views)).to(device).permute(0, 3, 1, 2)
            with torch.no_grad(), autocast(device.type, settings.precision):
                features = model.pooled_map(model.preprocess(x)).to(kind)
            score = settings.similarity or "magnitude"
            importance, _ = attention.importances(model.projected, features.chunk(2), score=score)
            maps = attention.weighted_map(importance, features[: len(pairs)])
            large = attention.enlarge(maps, (photos.size, photos.size)).cpu()
            map_of = dict(zip(pairs, large, strict=True))
        for name in group:
            reason = "alone in its class" if name in photos.usable else "untrusted mask"
            yield name, map_of.get(name, NoScoreError(reason))
