"""Models with random weights, and inputs to show them, for the tests of backbones and of the model."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from bgbias import plugins, seeds
from bgbias.models import backbones
from bgbias.models.model import EmbeddingModel, build_model
from bgbias.settings import Strict

# Tokens behind a class token, a map whose channels lie last, norms that hold an activation; the smallest of each.
TIMM: dict[str, dict[str, Any]] = {
    "timm:test_vit": {"img_size": 32},
    "timm:test_mambaout": {"img_size": 64},
    "timm:mobilenetv3_small_050": {"img_size": 64},
}
FILES = tuple(name for name in plugins.names("backbones") if name != "timm")
# Rows of a table that differ from another one by numbers alone, which is in test_backbones.py.
LARGER = {"resnet50", "resnet50_96", "resnet152", "mobilenet_v2_tf_112"}
BACKBONES = (*(name for name in FILES if name not in LARGER), *TIMM)


def side(name: str) -> int:
    """Pixels of a photo that is quickly seen: as small as the network allows."""
    return 56 if name.startswith("tiny") else TIMM.get(name, {}).get("img_size", 64)


def params(name: str, **options: Any) -> Strict:
    """Options, with random weights if nothing else is said."""
    kind = plugins.load("backbones", name).Params
    random = {"weights": None} if "weights" in kind.model_fields else {}
    chosen: Strict = kind(**random | TIMM.get(name, {}) | options)
    return chosen


def make(
    name: str, seed: int = 0, dim: int = 8, freeze_batch_norm: bool = True, weights: Path | None = None
) -> EmbeddingModel:
    """A model that takes small photos."""
    generator = seeds.torch_generator("test", seed)
    model = build_model(name, params(name), dim, generator, freeze_batch_norm, weights)
    model.input_size = side(name)
    return model


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
    """Normalised noise [count, 3, side, side]."""
    grey = 255 * torch.rand(count, 3, side(name), side(name), generator=seeds.torch_generator("photos"))
    return backbones.facts(name, params(name)).preprocess(grey)


def fold(net: EmbeddingModel) -> None:
    """Fold each batch norm into the convolution before it, as exported networks have it."""
    for parent in net.modules():
        children = list(parent.named_children())
        for (_, conv), (_, norm) in pairwise(children):
            if isinstance(conv, nn.Conv2d) and isinstance(norm, _BatchNorm):
                gain = norm.weight.data / (norm.running_var + norm.eps).sqrt()
                conv.weight.data *= gain[:, None, None, None] * (1 + norm.eps) ** 0.5
                norm.bias.data -= norm.running_mean * gain
                norm.weight.data.fill_(1)
                norm.running_mean.fill_(0)
                norm.running_var.fill_(1)
