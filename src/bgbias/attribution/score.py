"""How much of a map's strength lies on the object: the published attribution score (docs/methods.md, section 3)."""

from math import ceil, floor, nan

import numpy as np
import torch
from torch import Tensor

from bgbias.evaluation.photos import EvaluationPhotos

QUANTILE = 0.99  # of a map's values counts as its maximum


class NoScoreError(Exception):
    """This photo has no score; the text is the reason that tables count."""


def scored(
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
    low, high = strengths.min(), _quantile(strengths, QUANTILE)
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
    if attribution.shape != mask.shape:
        raise ValueError(f"map {tuple(attribution.shape)} and mask {tuple(mask.shape)} differ in size")
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


def _quantile(values: Tensor, share: float) -> Tensor:
    """As ``torch.quantile`` computes it, to the last bit, without sorting them all: that takes longer than a GPU's passes."""
    rank = share * (values.numel() - 1)
    below, above = floor(rank), ceil(rank)
    parted = np.partition(values.numpy(), (below, above), axis=None)
    low, high = torch.from_numpy(parted[[below, above]])
    return torch.lerp(low, high, rank - below)
