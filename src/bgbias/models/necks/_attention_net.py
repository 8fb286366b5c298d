"""The attention net of DCML, and the net with the mean of several nets' weights (Deng & Zhang, ICML 2022;
docs/methods.md, section 5)."""

from collections.abc import Sequence

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
        self.spatial = _two_layers(positions, positions)
        self.channel = _two_layers(channels, max(1, channels // 2))
        for weights in self.parameters():
            bound = weights.shape[1] ** -0.5
            nn.init.uniform_(weights, -bound, bound, generator=generator)

    def forward(self, features: Tensor) -> Tensor:
        """The attended map [B, channels, h, w], in the weights' precision even where autocast is on."""
        batch, _, height, width = features.shape
        with torch.autocast(features.device.type, enabled=False):
            features = features.to(next(self.parameters()).dtype)
            where = self.spatial(features.mean(1).reshape(batch, -1))
            attended = features * where.reshape(batch, 1, height, width)
            what = self.channel(attended.mean((2, 3)))
            return attended * what[:, :, None, None]


def mean_weights(nets: Sequence[AttentionNet]) -> dict[str, Tensor]:
    """The nets' weights, averaged matrix by matrix."""
    states = [dict(net.named_parameters()) for net in nets]
    return {name: torch.stack([weights[name] for weights in states]).mean(0) for name in states[0]}


def mean_attention(nets: Sequence[AttentionNet], features: Tensor) -> Tensor:
    """The map as the net with the mean of the nets' weights attends to it; gradients reach every net."""
    return functional_call(nets[0], mean_weights(nets), (features,))


def _two_layers(size: int, hidden: int) -> nn.Sequential:
    # Linear layers draw from the global generator when they are made, which is put back.
    with torch.random.fork_rng(devices=[]):
        return nn.Sequential(
            nn.Linear(size, hidden, bias=False), nn.ReLU(), nn.Linear(hidden, size, bias=False), nn.Sigmoid()
        )
