"""The layers of BN-Inception: paths of convolutions and pools side by side, with flat names as Caffe has them."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

Path = list[str]  # layers by name, one after the other


class Widths(NamedTuple):
    """Channels of an inception module's paths, each narrowed before it is convolved.

    ``single``: 1x1; ``triple``: 1x1, 3x3; ``double``: 1x1, 3x3, 3x3 of the same width; ``pooled``: 3x3 pool, 1x1. Without
    ``single`` and ``pooled`` the module halves the map, and its pool passes all channels on.
    """

    single: int
    triple: tuple[int, int]
    double: tuple[int, int]
    pooled: int


MODULES = {
    "3a": Widths(64, (64, 64), (64, 96), 32),
    "3b": Widths(64, (64, 96), (64, 96), 64),
    "3c": Widths(0, (128, 160), (64, 96), 0),
    "4a": Widths(224, (64, 96), (96, 128), 128),
    "4b": Widths(192, (96, 128), (96, 128), 128),
    "4c": Widths(160, (128, 160), (128, 160), 128),
    "4d": Widths(96, (128, 192), (160, 192), 128),
    "4e": Widths(0, (128, 192), (192, 256), 0),
    "5a": Widths(352, (192, 320), (160, 224), 128),
    "5b": Widths(352, (192, 320), (192, 224), 128),
}
MAX_POOLED = ("3c", "4e", "5b")  # all others average, zeros beyond the border counted


class BNInception(nn.Module):
    """Stages one after the other; each gives the concatenated channels of its paths."""

    def __init__(self) -> None:
        super().__init__()
        self._convolve("conv1_7x7_s2", 3, 64, 7, stride=2)
        self._pool("pool1_3x3_s2", stride=2)
        self._convolve("conv2_3x3_reduce", 64, 64, 1)
        self._convolve("conv2_3x3", 64, 192, 3)
        self._pool("pool2_3x3_s2", stride=2)
        stem = [name for name, _ in self.named_children() if not name.endswith("_bn")]
        self.stages: list[list[Path]] = [[stem]]
        self.relu = nn.ReLU(inplace=True)
        channels = 192
        for name, widths in MODULES.items():
            paths, channels = self._inception(f"inception_{name}", channels, widths, name in MAX_POOLED)
            self.stages.append(paths)

    def forward(self, x: Tensor) -> Tensor:
        """The feature map of normalised photos [B, 3, H, W]."""
        for paths in self.stages:
            x = torch.cat([self._follow(path, x) for path in paths], dim=1)
        return x

    def _follow(self, path: Path, x: Tensor) -> Tensor:
        for name in path:
            layer = getattr(self, name)
            x = layer(x)
            if isinstance(layer, nn.Conv2d):
                x = self.relu(getattr(self, f"{name}_bn")(x))
        return x

    def _inception(
        self, name: str, channels: int, widths: Widths, max_pooled: bool
    ) -> tuple[list[Path], int]:
        """Register a module's layers; its paths and the channels they give together."""
        stride = 1 if widths.single else 2
        (narrow, wide), (narrow_double, wide_double) = widths.triple, widths.double
        paths = [[self._convolve(f"{name}_1x1", channels, widths.single, 1)]] if widths.single else []
        paths += [
            [
                self._convolve(f"{name}_3x3_reduce", channels, narrow, 1),
                self._convolve(f"{name}_3x3", narrow, wide, 3, stride),
            ],
            [
                self._convolve(f"{name}_double_3x3_reduce", channels, narrow_double, 1),
                self._convolve(f"{name}_double_3x3_1", narrow_double, wide_double, 3),
                self._convolve(f"{name}_double_3x3_2", wide_double, wide_double, 3, stride),
            ],
            [self._pool(f"{name}_pool", stride, max_pooled)],
        ]
        if widths.pooled:
            paths[-1].append(self._convolve(f"{name}_pool_proj", channels, widths.pooled, 1))
        return paths, widths.single + wide + wide_double + (widths.pooled or channels)

    def _convolve(self, name: str, channels_in: int, channels: int, kernel: int, stride: int = 1) -> str:
        # The norm stands right behind its convolution, so that it can be folded into it.
        self.add_module(name, nn.Conv2d(channels_in, channels, kernel, stride, padding=kernel // 2))
        self.add_module(f"{name}_bn", nn.BatchNorm2d(channels))
        return name

    def _pool(self, name: str, stride: int, is_max: bool = True) -> str:
        layer: nn.Module = nn.AvgPool2d(3, stride, padding=1, ceil_mode=True)
        if is_max:
            layer = nn.MaxPool2d(3, stride, padding=1 if stride == 1 else 0, ceil_mode=True)
        self.add_module(name, layer)
        return name
