"""The attention nets of DCML, and how far apart those of several environments are (Deng & Zhang, ICML 2022; METHODS section 5)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call


class AttentionNet(nn.Module):
    """Spatial, then channel attention on a feature map, each by two linear layers without biases (appendix C of the paper).

    From a map [B, channels, h, w] with h * w = ``positions`` to one of the same shape whose entries were multiplied with
    numbers of 0..1. The weights are drawn from ``generator`` by PyTorch's own rule for linear layers.
    """

    def __init__(self, channels: int, positions: int, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.channels, self.positions = channels, positions
        self.spatial = _two_layers(positions, positions)
        self.channel = _two_layers(channels, max(1, channels // 2))
        for weights in self.parameters():
            bound = weights.shape[1] ** -0.5
            nn.init.uniform_(weights, -bound, bound, generator=generator)

    def forward(self, features: Tensor) -> Tensor:
        """The attended map [B, channels, h, w], in the weights' precision even where autocast is on."""
        batch, _, height, width = features.shape
        with torch.autocast(features.device.type, enabled=False):
            features = features.to(self.spatial[0].weight.dtype)
            where = self.spatial(features.mean(1).reshape(batch, -1))
            seen = features * where.reshape(batch, 1, height, width)
            what = self.channel(seen.mean((2, 3)))
            return seen * what[:, :, None, None]


def mean_weights(nets: Iterable[AttentionNet]) -> dict[str, Tensor]:
    """The nets' weights, averaged matrix by matrix: what one net has at test time."""
    named = [dict(net.named_parameters()) for net in nets]
    return {name: torch.stack([weights[name] for weights in named]).mean(0) for name in named[0]}


def mean_attention(nets: Sequence[AttentionNet], features: Tensor) -> Tensor:
    """The map as the net with the mean of the nets' weights attends to it; gradients reach every net."""
    attended: Tensor = functional_call(nets[0], mean_weights(nets), (features,))
    return attended


def distance(nets: Sequence[AttentionNet]) -> Tensor:
    """The paper's penalty, a scalar: sum over nets of the squared distance of all weights to their mean."""
    return sum((weights - mean).square().sum() for weights, mean in _beside_their_mean(nets))  # type: ignore[return-value]


def relative_distance(nets: Sequence[AttentionNet]) -> Tensor:
    """The released code's penalty, a scalar: mean over nets and matrices of (|W - mean|_2 / sum of |entries of W|)^2.

    About 1.4e-4 for two nets with random weights, where the paper's is about 545: practically off.
    """
    return torch.stack(
        [
            (weights - mean).square().sum() / weights.abs().sum().square()
            for weights, mean in _beside_their_mean(nets)
        ]
    ).mean()


def _beside_their_mean(nets: Sequence[AttentionNet]) -> list[tuple[Tensor, Tensor]]:
    means = mean_weights(nets)
    return [(weights, means[name]) for net in nets for name, weights in net.named_parameters()]


def _two_layers(size: int, hidden: int) -> nn.Sequential:
    # Linear layers draw from the global generator when they are made, which is put back.
    with torch.random.fork_rng(devices=[]):
        return nn.Sequential(
            nn.Linear(size, hidden, bias=False), nn.ReLU(), nn.Linear(hidden, size, bias=False), nn.Sigmoid()
        )
