"""Adversarial training and its controls on small models."""

from __future__ import annotations

from typing import Any

import torch
from fitting import model as model
from sam_models import batch as batch
from torch import Tensor, nn

from bgbias import plugins

ADVERSARIAL = ("at", "advprop_d", "mdprop")
CONTROLS = ("st_unfrozen", "st_2xbatch")


def contrastive() -> nn.Module:
    loss = plugins.load("losses", "contrastive")
    made: nn.Module = loss.build(loss.Params(pos_margin=0.2, neg_margin=0.9), 4, 4, torch.Generator())
    return made


def method(name: str, seed: int = 0, frozen: bool = True, **options: Any) -> Any:
    """The method in training mode, as an epoch begins."""
    module = plugins.load("methods", name)
    made = module.Method(model(seed, frozen), contrastive(), module.Params(**options))
    for part in made.modules().values():
        part.train()
    return made


def in_double(made: Any) -> Any:
    """The method in float64, its photos too."""
    for part in made.modules().values():
        part.double()
    made.grey_levels = lambda given: given.images.double()
    made.attack_batch = _of_double(made)
    return made


def _of_double(made: Any) -> Any:
    attacked = type(made).attack_batch

    def run(photos: Tensor, given: Any) -> Any:
        return attacked(made, photos.double(), given)

    return run
