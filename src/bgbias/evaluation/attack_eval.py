"""Test photos, attacked on the network that embeds them (docs/methods.md, section 8)."""

import numpy as np
import torch

from bgbias import attacks, seeds
from bgbias.attacks import Strength
from bgbias.compute.device import autocast
from bgbias.evaluation.photos import EvaluationPhotos
from bgbias.models.model import EmbeddingModel
from bgbias.models.settings import USUAL, How


def embed_attacked(
    model: EmbeddingModel,
    photos: EvaluationPhotos,
    clean: np.ndarray,
    attack: str,
    strength: Strength,
    how: How = USUAL,
) -> np.ndarray:
    """Embeddings float32 [N, d] of the split's photos, each attacked towards others of it, for the model alone.

    ``clean`` [N, d]: the model's embeddings of the original photos, in the table's order, of which the targets' are taken, and
    which are the answer where epsilon is 0. Targets and noise are drawn by the photos' names, not by the batch that a photo is
    in, and are the same for every model of one input size. Too few classes for the attack are an error.
    """
    labels, keys = photos.table.labels, photos.table.keys
    rows = attacks.targets_of_photos(labels, keys, attacks.targets(attack))
    if not strength.epsilon:
        return clean
    aims = torch.from_numpy(clean)[rows]
    look, device = model.pooled if how.pooled else model, how.device

    def embedded(x: torch.Tensor) -> torch.Tensor:
        return look(model.preprocess(x))

    vectors: list[torch.Tensor] = []
    with attacks.evaluating(model):
        for start in range(0, len(keys), how.batch_size):
            stop = start + how.batch_size
            batch = np.stack([photos.clean(name) for name in photos.table.ids[start:stop]])
            # In the memory's order that networks are fastest with.
            grey = torch.from_numpy(batch).permute(0, 3, 1, 2).float()
            # By each photo's name, on the CPU, so that every device starts alike.
            drawn = [seeds.torch_generator("attack noise", key, 0, item) for key, item in keys[start:stop]]
            noise = torch.stack([attacks.uniform(*one) for one in zip(grey, drawn, strict=True)])
            grey, goal = grey.to(device), aims[start:stop].to(device)
            begin = attacks.start(grey, strength.noise, noise.to(device))
            with autocast(device, how.precision):
                moved = attacks.attack(embedded, grey, goal, attack, strength, begin)
                with torch.no_grad():
                    vectors.append(embedded(moved).float().cpu())
    return torch.cat(vectors).numpy()
