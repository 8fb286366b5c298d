"""Small methods in memory, trained for a few steps."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from bgbias import plugins, seeds
from bgbias.models.model import EmbeddingModel, build_model
from bgbias.training import loop
from bgbias.training.methods import Batch, Task
from bgbias.training.settings import Train

# Settings for tests that want any valid ones: those of CUB-200-2011 in docs/methods.md, section 1.
CUB: dict[str, dict[str, Any]] = {
    "contrastive": {"pos_margin": -0.2, "neg_margin": 0.38411914},
    "triplet": {"margin": 0.09610075},
    "quadruplet": {"margin": 0.5},
    "multi_similarity": {"alpha": 0.01, "beta": 50.6017738, "base": 0.56248158},
    "arcface": {"margin": 23.2259355, "scale": 100, "lr": 0.0051384088},
    "normalized_softmax": {"temperature": 0.10874715, "lr": 0.0044689},
    "cosface": {"margin": 0.6182, "scale": 100, "lr": 2.53e-3},
    "roth_multi_similarity": {"alpha": 2.0, "beta": 40.0, "base": 0.5, "epsilon": 0.1},
    "roth_arcface": {"margin": 0.5, "scale": 16, "lr": 5e-4, "bug": False},
}
SETTINGS = CUB | {"contrastive": {"pos_margin": 0.2, "neg_margin": 1.5}}

EIGHT = torch.arange(4).repeat_interleave(2)
TABLE = EIGHT.repeat(64)  # the classes of all training photos, of which each batch has eight
_better = itertools.count()


def batch(seed: int = 0, side: int = 32) -> Batch:
    """Eight photos of four classes with all that a method may read; the fourth one's mask is not trusted."""
    generator = seeds.torch_generator("negatives", seed)
    photos, behind, quilts = torch.randint(256, (3, 8, 3, side, side), generator=generator, dtype=torch.uint8)
    shares = torch.zeros(8, 1, side, side)
    shares[:, :, 4:12, 6:20] = 1
    shares[3] = 1
    return Batch(photos, EIGHT, 8 * seed + torch.arange(8), shares, behind, quilts)


def model(seed: int = 0, frozen: bool = True, backbone: str = "pixels", **options: Any) -> EmbeddingModel:
    """In training mode, as an epoch begins, with the statistics of a network that has seen something."""
    params = plugins.load("backbones", backbone).Params(**options)
    net = build_model(backbone, params, 4, seeds.torch_generator("model", seed), frozen).train()
    if backbone == "pixels":
        with torch.no_grad():
            net.trunk[1].running_mean.normal_(0, 0.1, generator=seeds.torch_generator("statistics", seed))
    return net


def loss(name: str = "contrastive", width: int = 4) -> nn.Module:
    """A loss of four classes."""
    kind = plugins.load("losses", name)
    made: nn.Module = kind.build(kind.Params(**SETTINGS[name]), 4, width, torch.Generator().manual_seed(0))
    return made


def method(
    name: str, of: str = "contrastive", seed: int = 0, frozen: bool = True, net: Any = None, **options: Any
) -> Any:
    """A method on ``model`` in training mode, with a loss that knows how negatives of no class join it."""
    module = plugins.load("methods", name)
    repelled = plugins.load("repulsions", of).loss if plugins.known("repulsions", of) else None
    task = Task(TABLE, ("squares", 0), lambda width: loss(of, width), SETTINGS[of].get("lr"), repelled)
    params = module.Params(**options) if hasattr(module, "Params") else None
    made = module.Method(net or model(seed, frozen), loss(of), params, task)
    for part in made.modules().values():
        part.train()
    return made


def in_double(made: Any) -> Any:
    """The method in float64, its photos and their attacked copies, too."""
    for part in made.modules().values():
        part.double()
    for one in (made, getattr(made, "inner", made)):
        one.grey_levels = lambda given: given.images.double()
    if attack := getattr(made, "attack_batch", None):
        made.attack_batch = lambda photos, given: attack(photos.double(), given)
    return made


def gradients(made: Any, of: Tensor) -> dict[str, Tensor]:
    """By all weights of a method; 0 where there is none."""
    named = {f"{n}.{k}": p for n, part in made.modules().items() for k, p in part.named_parameters()}
    slopes = torch.autograd.grad(of, list(named.values()), allow_unused=True, materialize_grads=True)
    return dict(zip(named, slopes, strict=True))


def fit(made: Any, folder: Path, name: str, epochs: int = 2, **options: Any) -> dict[str, Tensor]:
    """All weights after so many epochs of two steps, each better than the one before; resumed where ``name`` was begun."""

    def validate(net: EmbeddingModel) -> dict[str, float]:
        return {"val_map_at_r": next(_better) / 1000}

    def batches(epoch: int) -> Iterator[Batch]:
        yield from (batch(10 * epoch + step) for step in range(2))

    def passes(epoch: int, name: str, size: int) -> Iterator[Batch]:
        yield from map(batch, range(3))

    settings = Train(iterations_per_epoch=2, lr=1e-3, max_epochs=epochs, patience=9, **options)
    paths = folder / f"{name}.pt", folder / f"{name}.csv"
    loop.fit(made, batches, validate, "val_map_at_r", settings, *paths, digest=name, passes=passes)
    return weights(made)


def weights(made: Any) -> dict[str, Tensor]:
    """Copies of all that a checkpoint holds of a method."""
    return {f"{n}.{k}": v.clone() for n, part in made.modules().items() for k, v in part.state_dict().items()}


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)
