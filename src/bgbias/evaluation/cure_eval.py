"""A model with a cure that needs no training: what it makes of pictures and the masks of their objects, and in what time."""

import statistics
import timeit
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from types import ModuleType

import numpy as np
import torch

from bgbias.compute.device import autocast
from bgbias.evaluation.conditions import View
from bgbias.evaluation.late_interaction import PatchSets
from bgbias.evaluation.photos import EvaluationPhotos
from bgbias.files.store import ImageStore
from bgbias.masks import policy as masking
from bgbias.masks.settings import MaskPolicy
from bgbias.models.inference import embed_views
from bgbias.models.model import EmbeddingModel
from bgbias.models.settings import USUAL, How

# A picture uint8 [S, S, 3] and its object's mask uint8 [S, S]; None where it is not trusted, and the picture stays as it is.
Seen = tuple[np.ndarray, np.ndarray | None]
TIMES = 3


def with_found_masks(
    photos: EvaluationPhotos, view: View, masks: ImageStore, policy: MaskPolicy
) -> Iterator[Seen]:
    """Each photo in a view with the mask that was found in it, as the policy uses it; without one outside its areas."""
    for name, picture, _ in photos.with_masks([view]):
        mask = masks.array(name, "L")
        trusted = policy.keep_all or policy.min_area <= mask.mean() / 255 <= policy.max_area
        yield picture, masking.as_used(mask, policy) if trusted else None


def embed(
    model: EmbeddingModel, views: Iterable[Seen], cure: ModuleType | None, how: How = USUAL
) -> np.ndarray:
    """Embeddings float32 [N, D] by a model (as ``models.inference.for_inference`` made it) of what a cure makes of pictures or of
    feature maps, or without one.
    """
    if cure is None:
        return embed_views(model, (picture for picture, _ in views), how)
    if cure.AT in ("picture", "beside"):
        changed = (picture if mask is None else cure.apply(picture, mask) for picture, mask in views)
        return embed_views(model, changed, how)
    with torch.inference_mode(), autocast(how.device, how.precision):
        return np.concatenate([_embed(model, cure.apply(*maps), how) for maps in _batches(model, views, how)])


def embed_patches(
    model: EmbeddingModel, views: Iterable[Seen], cure: ModuleType, how: How = USUAL
) -> PatchSets:
    """What the model makes of each place of the feature maps that the cure keeps, as if the picture were all like it."""
    vectors, counts = [], []
    with torch.inference_mode(), autocast(how.device, how.precision):
        for features, masks in _batches(model, views, how):
            chosen = cure.apply(features, masks)
            places = features.permute(0, 2, 3, 1)[chosen][:, :, None, None]
            vectors.append(_embed(model, places, how))
            counts.append(chosen.sum(dim=(1, 2)).cpu().numpy())
    return PatchSets(np.concatenate(vectors), np.concatenate(counts))


def _batches(
    model: EmbeddingModel, views: Iterable[Seen], how: How
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Feature maps float32 [B, C, h, w] as they are pooled, and masks float32 [B, 1, S, S] in 0..1."""
    stream = iter(views)
    while batch := list(islice(stream, how.batch_size)):
        # Where a mask is not trusted all places count alike.
        whole = np.full(batch[0][0].shape[:2], 255, np.uint8)
        filled = ((picture, whole if mask is None else mask) for picture, mask in batch)
        pictures, masks = (torch.from_numpy(np.stack(a)).to(how.device) for a in zip(*filled, strict=True))
        x = model.preprocess(pictures.permute(0, 3, 1, 2)).contiguous(memory_format=torch.channels_last)
        features = model.features(x) if how.pooled else model.pooled_map(x)
        yield features.float(), masks[:, None].float() / 255


def _embed(model: EmbeddingModel, features: torch.Tensor, how: How) -> np.ndarray:
    mean = torch.nn.functional.normalize(features.mean(dim=(2, 3)), dim=1)
    vectors = mean if how.pooled else model.embed_features(features)
    return np.asarray(vectors.float().cpu().numpy())


def milliseconds(look: Callable[[], object], pictures: int) -> float:
    """What ``look`` takes for each of so many pictures: the median of ``TIMES`` after one that does not count."""
    look()
    return 1000 * statistics.median(timeit.repeat(look, number=1, repeat=TIMES)) / pictures
