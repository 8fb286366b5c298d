"""Losses with known numbers, and what is asked of them."""

from __future__ import annotations

import torch
from torch import Tensor

from bgbias import plugins, seeds

# G4: z, y and the class weights W (rows; the losses hold columns and normalise them). float64 values of
# docs/methods.md, section 11.
EMBEDDINGS = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0], [-0.6, 0.8]], dtype=torch.float64)
LABELS = torch.tensor([0, 0, 1, 1])
CLASS_WEIGHTS = torch.tensor([[1.0, 0.0], [0.0, 2.0], [-1.0, -1.0]], dtype=torch.float64)
# Settings for tests that want any valid ones: those of CUB-200-2011 in docs/methods.md, section 1.
CUB = {
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


def build(
    name: str, settings: dict[str, float], n_classes: int = 3, dim: int = 2, seed: int = 0
) -> torch.nn.Module:
    module = plugins.load("losses", name)
    return module.build(module.Params(**settings), n_classes, dim, seeds.torch_generator("test", seed))


def set_class_weights(loss: torch.nn.Module, rows: Tensor) -> None:
    for parameter in loss.parameters():
        parameter.data = rows.T.clone()


def random_batch(seed: int, classes: int = 5, size: int = 16, dim: int = 6) -> tuple[Tensor, Tensor]:
    generator = seeds.torch_generator("test batch", seed)
    embeddings = torch.randn(size, dim, generator=generator, dtype=torch.float64)
    labels = torch.randint(classes, (size,), generator=generator)
    return torch.nn.functional.normalize(embeddings, dim=1), labels


def mean_of_non_zero(values: list[float]) -> float:
    values = [v for v in values if v > 0]
    return sum(values) / len(values) if values else 0.0
