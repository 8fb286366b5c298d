"""How much of a map's strength lies on the object: the published attribution score (docs/methods.md, section 3).

It is made of gradients (``smoothgrad.py``) and, as a second attribution, of similarity attention (section 7): where a model finds
a photo like another one of its class, which is the same one for every model.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from math import nan

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from bgbias import progress, seeds
from bgbias.attribution import similarity as attention
from bgbias.attribution.settings import Attribution
from bgbias.compute.device import autocast
from bgbias.compute.transfer import to_device
from bgbias.evaluation.photos import EvaluationPhotos
from bgbias.models.inference import for_inference
from bgbias.models.model import EmbeddingModel
from bgbias.photos.table import ImageTable

QUANTILE = 0.99  # of a map's values counts as its maximum
VARIANT = "similarity"
PAIRS = {"cpu": 12, "cuda": 64}  # that go through a network at once
# Why a map gives no score, as tables count it; the first that holds. "" where nothing does.
FLAWS = ("", "gradient not finite", "constant map", "full mask", "empty mask")
# A photo's true object, bool [S, S], or None where it is not known, by its id.
Truth = Callable[[str], np.ndarray | None]


def score_photo(
    photos: EvaluationPhotos,
    image_id: str,
    variant: str,
    strengths: Tensor | str,
    truth: Truth | None = None,
) -> tuple[dict[str, object], Tensor | None]:
    """A photo's row of the table, from its map [H, W] or the reason why there is none, and the normalised map if it has one."""
    if photos.masks is None or image_id not in photos.masks:
        return _make_row(image_id, variant, "no mask"), None
    masks = read_masks(photos, [image_id], truth)
    if isinstance(strengths, str):
        return _make_row(image_id, variant, strengths, float((masks.double() / 255).mean())), None
    (numbers,), (attribution,) = score_maps(strengths[None], masks)
    return row_of(image_id, variant, numbers), None if attribution.isnan().any() else attribution


def read_masks(photos: EvaluationPhotos, ids: Sequence[str], truth: Truth | None = None) -> Tensor:
    """Where the objects of photos are, uint8 [B, S, S]: the true ones where they are known, else what the masks say."""
    masks = []
    for image_id in ids:
        known = truth(image_id) if truth else None
        masks.append(photos.mask(image_id) if known is None else 255 * known.astype(np.uint8))
    return torch.from_numpy(np.stack(masks))


def score_maps(strengths: Tensor, masks: Tensor) -> tuple[Tensor, Tensor]:
    """Maps [B, H, W] scored by soft masks uint8 [B, H, W], where the maps are: for ``row_of``, float64 [B, 3], each photo's score
    (NaN: none), its object's share of the picture, and the place in ``FLAWS`` of why there is no score; and maps as ``normalise``
    makes them.

    A full mask has none (0/0), nor has an empty one, of which the formula would say 0 whatever the model does.
    """
    shares = to_device(masks, str(strengths.device)).double() / 255
    maps = normalise(strengths)
    has_flaw = torch.stack(
        [
            ~strengths.isfinite().flatten(1).all(1),
            maps.isnan().flatten(1).any(1),
            shares.amin((1, 2)) >= 1,  # a GPU's mean of ones may be less
            shares.amax((1, 2)) <= 0,
        ]
    )
    flaws = torch.where(has_flaw.any(0), has_flaw.int().argmax(0) + 1, 0)
    scores = score(maps, shares).where(flaws == 0, nan)
    return torch.stack((scores, shares.mean((1, 2)), flaws), 1), maps


def row_of(image_id: str, variant: str, numbers: Tensor) -> dict[str, object]:
    """A photo's row of the table, from what ``score_maps`` gives of it."""
    score, fraction, flaw = numbers.tolist()
    return _make_row(image_id, variant, FLAWS[int(flaw)], fraction, score)


def normalise(strengths: Tensor) -> Tensor:
    """Maps [..., H, W] stretched to 0..1 (float64): the minimum of each to 0, its 0.99-quantile (linear) and above to 1.

    One whose quantile is its minimum has no shape to speak of; it is NaN, as is one that is not finite.
    """
    flat = strengths.double().flatten(-2)
    low, high = flat.amin(-1, keepdim=True), torch.quantile(flat, QUANTILE, dim=-1, keepdim=True)
    has_shape = flat.isfinite().all(-1, keepdim=True) & (high > low)
    stretched = ((flat - low) / (high - low)).clamp(0, 1)
    return stretched.where(has_shape, nan).unflatten(-1, strengths.shape[-2:])


def score(attribution: Tensor, mask: Tensor) -> Tensor:
    """(a - f) / (1 - f) of maps [..., H, W] and soft masks [..., H, W] in 0..1.

    a is the share of the attribution on the object, f the object's share of the picture: 1 when all of it
    lies on the object, 0 when it is spread evenly, negative when the background has more than its share.
    """
    fraction = mask.mean((-2, -1))
    on_object = (mask * attribution).sum((-2, -1)) / attribution.sum((-2, -1))
    return (on_object - fraction) / (1 - fraction)


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


def _make_row(
    image_id: str, variant: str, skipped: str, fraction: float = nan, score: float = nan
) -> dict[str, object]:
    columns = {"image_id": image_id, "variant": variant, "score": score}
    return columns | {"mask_fraction": fraction, "skipped": skipped}


def _compute_maps(
    model: EmbeddingModel, photos: EvaluationPhotos, partner_of: dict[str, str], settings: Attribution
) -> Iterator[tuple[str, Tensor | str]]:
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
            yield name, map_of.get(name, reason)
