"""SAM on small models, and batches for it."""

from __future__ import annotations

from typing import Any

import torch

from bgbias import plugins, seeds
from bgbias.models.model import EmbeddingModel, build_model
from bgbias.training.methods import Batch

NEGATIVES = {"sam_siamese": 0, "sam_triplet": 1, "sam_quad": 2}
FORMS = sorted(NEGATIVES)


def model(seed: int = 0, backbone: str = "pixels", **options: Any) -> EmbeddingModel:
    chosen = plugins.load("backbones", backbone).Params(**options)
    # Training mode, as in training: batch norm is frozen.
    return build_model(backbone, chosen, 4, seeds.torch_generator("model", seed)).train()


def method(form: str, seed: int = 0, **options: Any) -> Any:
    module = plugins.load("methods", form)
    return module.Method(model(seed), triplet(), module.Params(**options))


def triplet() -> torch.nn.Module:
    loss = plugins.load("losses", "triplet")
    made: torch.nn.Module = loss.build(loss.Params(margin=0.5), 4, 4, torch.Generator())
    return made


def batch(seed: int = 0, classes: int = 4, size: int = 32, each: int = 2) -> Batch:
    generator = seeds.torch_generator("batch", seed)
    count = classes * each
    pictures = torch.randint(256, (count, 3, size, size), generator=generator, dtype=torch.uint8)
    return Batch(pictures, torch.arange(classes).repeat_interleave(each), 100 * seed + torch.arange(count))
