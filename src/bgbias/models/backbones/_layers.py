"""Layers that PyTorch does not have: those of our own small networks, and TensorFlow's padding."""

import torch.nn.functional as F
from torch import Tensor, nn

GROUP = 8  # channels that share their statistics in group normalisation


class ConvGroupNormRelu(nn.Sequential):
    """Convolution, group normalisation, ReLU; halves (or quarters) the map where ``stride`` says so."""

    def __init__(self, channels_in: int, channels: int, kernel: int, stride: int = 1) -> None:
        padding = (kernel - 1) // 2 if stride < kernel else 0
        super().__init__(
            nn.Conv2d(channels_in, channels, kernel, stride, padding, bias=False),
            nn.GroupNorm(channels // GROUP, channels),
            nn.ReLU(inplace=True),
        )


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions whose result is added to their input (He et al., CVPR 2016)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = ConvGroupNormRelu(channels, channels, 3)
        self.second = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm = nn.GroupNorm(channels // GROUP, channels)

    def forward(self, x: Tensor) -> Tensor:
        """The map [B, C, H, W] after the block."""
        return F.relu(x + self.norm(self.second(self.first(x))))


class SpatialGate(nn.Module):
    """Weighs every place of a map by a softmax over places: the mean over places becomes a learnt one."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weigh = nn.Conv2d(channels, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        """The map [B, C, H, W] times weights [B, 1, H, W] whose mean is 1."""
        weights = self.weigh(x).flatten(1).softmax(dim=1) * (x.shape[2] * x.shape[3])
        return x * weights.view(-1, 1, x.shape[2], x.shape[3])


class SamePaddedConv2d(nn.Conv2d):
    """TensorFlow's "same" padding where it differs from PyTorch's, 3x3 convolutions of stride 2 on maps of even size: nothing
    left and above, one column right and one row below.
    """

    def forward(self, x: Tensor) -> Tensor:
        """The padded map's convolution: [B, C, H, W] to [B, D, H/2, W/2]."""
        return super().forward(F.pad(x, (0, 1, 0, 1)))
