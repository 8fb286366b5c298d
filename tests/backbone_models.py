"""Models with random weights, and inputs to show them, for the tests of backbones and of the model."""

from __future__ import annotations

from types import ModuleType

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from bgbias import plugins, seeds
from bgbias.model import EmbeddingModel, build_model


def random_options(module: ModuleType) -> dict[str, None]:
    """Options that start from random weights."""
    return {"weights": None} if "weights" in module.Params.model_fields else {}


def make(name: str, seed: int = 0, dim: int = 8, freeze_batch_norm: bool = True) -> EmbeddingModel:
    module = plugins.load("backbones", name)
    generator = seeds.torch_generator("test", seed)
    return build_model(name, module.Params(**random_options(module)), dim, generator, freeze_batch_norm)


def unsettle(model: nn.Module) -> None:
    """Batch norms as training leaves them: every statistic, gain and offset somewhere else."""
    generator = seeds.torch_generator("unsettle")
    for module in model.modules():
        if isinstance(module, _BatchNorm):
            for tensor in (module.running_mean, module.bias.data):
                tensor.normal_(0, 0.1, generator=generator)
            for tensor in (module.running_var, module.weight.data):
                tensor.uniform_(0.7, 1.3, generator=generator)


def photos(name: str, count: int = 2) -> Tensor:
    module = plugins.load("backbones", name)
    grey = 255 * torch.rand(
        count, 3, module.INPUT_SIZE, module.INPUT_SIZE, generator=seeds.torch_generator("photos")
    )
    return module.PREPROCESS(grey)
