"""Small methods in memory, trained for a few steps."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from known_losses import CUB
from torch import Tensor

from bgbias import plugins, seeds
from bgbias.models.model import EmbeddingModel, build_model
from bgbias.training import loop
from bgbias.training.methods import BaseMethod, Batch, Task
from bgbias.training.settings import Train

EIGHT = torch.arange(4).repeat_interleave(2)
SETTINGS = CUB | {"contrastive": {"pos_margin": 0.2, "neg_margin": 1.5}}
_better = itertools.count()


def batch(seed: int = 0) -> Batch:
    """Eight photos of four classes with all that a method may read; the fourth one's mask is not trusted."""
    generator = seeds.torch_generator("negatives", seed)
    photos, behind, quilts = torch.randint(256, (3, 8, 3, 32, 32), generator=generator, dtype=torch.uint8)
    shares = torch.zeros(8, 1, 32, 32)
    shares[:, :, 4:12, 6:20] = 1
    shares[3] = 1
    return Batch(photos, EIGHT, 100 * seed + torch.arange(8), shares, behind, quilts)


def model(seed: int = 0, frozen: bool = True) -> EmbeddingModel:
    """In training mode, as an epoch begins, with the statistics of a network that has seen something."""
    params = plugins.load("backbones", "pixels").Params()
    net = build_model("pixels", params, 4, seeds.torch_generator("model", seed), frozen).train()
    with torch.no_grad():
        net.trunk[1].running_mean.normal_(0, 0.1, generator=seeds.torch_generator("statistics", seed))
    return net


def method(
    name: str, loss: str = "contrastive", seed: int = 0, frozen: bool = True, **options: Any
) -> BaseMethod:
    """A method on ``model``, with a loss that knows how negatives of no class join it."""
    module, kind = plugins.load("methods", name), plugins.load("losses", loss)
    base = kind.build(kind.Params(**SETTINGS[loss]), 4, 4, torch.Generator().manual_seed(0))
    task = Task(EIGHT, ("squares", 0), repelled=plugins.load("repulsions", loss).loss)
    made: BaseMethod = module.Method(model(seed, frozen), base, module.Params(**options), task)
    for part in made.modules().values():
        part.train()
    return made


def fit(made: BaseMethod, folder: Path, name: str, epochs: int = 2, **options: Any) -> dict[str, Tensor]:
    """All weights after so many epochs of two steps, each better than the one before; resumed where ``name`` was begun."""

    def validate(net: EmbeddingModel) -> dict[str, float]:
        return {"val_map_at_r": next(_better) / 1000}

    def batches(epoch: int) -> Iterator[Batch]:
        yield from (batch(10 * epoch + step) for step in range(2))

    settings = Train(iterations_per_epoch=2, lr=1e-3, max_epochs=epochs, patience=9, **options)
    paths = folder / f"{name}.pt", folder / f"{name}.csv"
    loop.fit(made, batches, validate, "val_map_at_r", settings, *paths, digest=name)
    return {f"{n}.{k}": v for n, part in made.modules().items() for k, v in part.state_dict().items()}


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)
