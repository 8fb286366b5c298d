"""Heads of pretrainings: what stands behind a network while it learns, and is thrown away after it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from bgbias import seeds


def two_layers(channels: int, hidden: int, dim: int, norm: bool, key: Sequence[object]) -> nn.Module:
    """A hidden layer, with a batch norm or without one, and a linear layer; random by ``key``, as PyTorch begins layers."""
    generator = seeds.torch_generator("head", *key)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(generator.initial_seed())
        norms = [nn.BatchNorm1d(hidden)] if norm else []
        return nn.Sequential(nn.Linear(channels, hidden), *norms, nn.ReLU(), nn.Linear(hidden, dim))
