"""A model with a cure that needs no training: what it makes of pictures and the masks of their objects, and in what time."""

import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from types import ModuleType

import numpy as np
import torch

from bgbias.compute.device import autocast
from bgbias.models.inference import embed_views
from bgbias.models.model import EmbeddingModel
from bgbias.models.settings import USUAL, How

# A picture uint8 [S, S, 3] and its object's mask uint8 [S, S]; None where it is not trusted, and the picture stays as it is.
Seen = tuple[np.ndarray, np.ndarray | None]
TIMES = 3


def embed(
    model: EmbeddingModel, seen: Iterable[Seen], cure: ModuleType | None, how: How = USUAL
) -> np.ndarray:
    """Embeddings float32 [N, D] by a model (as ``models.inference.for_inference`` made it) with a cure that is not fitted, or
    with none.
    """
    if cure is None:
        return embed_views(model, (picture for picture, _ in seen), how)
    if cure.AT == "picture":
        changed = (picture if mask is None else cure.apply(picture, mask) for picture, mask in seen)
        return embed_views(model, changed, how)
    return np.concatenate(list(_pooled_otherwise(model, iter(seen), cure, how)))


def _pooled_otherwise(
    model: EmbeddingModel, seen: Iterator[Seen], cure: ModuleType, how: How
) -> Iterator[np.ndarray]:
    device = how.device
    while batch := list(islice(seen, how.batch_size)):
        pictures = torch.from_numpy(np.stack([picture for picture, _ in batch])).to(device)
        # Where a mask is not trusted all places count alike.
        whole = np.full(batch[0][0].shape[:2], 255, np.uint8)
        masks = torch.from_numpy(np.stack([whole if mask is None else mask for _, mask in batch])).to(device)
        with torch.inference_mode(), autocast(device, how.precision):
            x = model.preprocess(pictures.permute(0, 3, 1, 2)).contiguous(memory_format=torch.channels_last)
            features = model.features(x) if how.pooled else model.pooled_map(x)
            changed = cure.apply(features.float(), masks[:, None].float() / 255)
            mean = torch.nn.functional.normalize(changed.mean(dim=(2, 3)), dim=1)
            vectors = mean if how.pooled else model.embed_features(changed)
        yield vectors.float().cpu().numpy()


def milliseconds(look: Callable[[], object], pictures: int) -> float:
    """What ``look`` takes for each of so many pictures: the median of ``TIMES`` after one that does not count."""
    look()
    took = []
    for _ in range(TIMES):
        start = time.perf_counter()
        look()
        took.append(time.perf_counter() - start)
    return 1000 * statistics.median(took) / pictures
