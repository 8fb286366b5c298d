"""Gradients with respect to the photo, on a processor: the same ones, from quicker kernels. First derivatives only.

Attribution needs the gradient of a frozen network's input, which training never asks for, and PyTorch's kernels for it are
slow in three places. BN-Inception at 227 pixels with 25 views, float32 on one core: the backward pass of the first convolution
took 155 ms of 1,270 and takes 54; that of activations took 71, more than half of it for writing new memory, and takes 28; in
bfloat16 that of average pools took 68 ms of 740 and takes 14. ``python -m benchmarks attribution`` measures them together.
"""

from __future__ import annotations

import copy
import functools
import itertools
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from bgbias import seeds
from bgbias.models.model import EmbeddingModel

TOLERANCE = 1e-4  # of the largest gradient on the random picture
Kinds = dict[type[nn.Module], Callable[[Any], nn.Module | None]]
# A convolution's own backward pass is slow where its input has few channels and its kernel is no smaller than this. Of 3x3 ones,
# MobileNet's first, it is as quick.
FEW, KERNEL = 4, 4


def for_input_gradients(network: EmbeddingModel) -> EmbeddingModel:
    """A frozen network whose gradients with respect to its input are quicker on a processor; it shares the given one's weights.

    Activations write their gradient over the one they are given, which is right unless something else reads that one too, as
    where an activation is a term of a sum, whose terms are all given the same one. Hence the network is tried on a random
    picture: where its gradient is not the given network's, activations stay as they are, or all does. On a GPU, and where
    nothing can be replaced, it is the given network itself.
    """
    if network.embedder.weight.device.type != "cpu":
        return network
    expected = None
    for kinds in (ALL, WITHOUT_ACTIVATIONS):
        quick = _sharing(network)
        if not _replace(quick.trunk, kinds):
            continue
        if expected is None:
            expected = _gradient(network)
        try:
            apart = (_gradient(quick) - expected).abs().max()
        except RuntimeError:  # autograd's, where a tensor that is needed was written over
            continue
        if apart <= TOLERANCE * expected.abs().max():
            return quick
    return network


class QuickConv2d(nn.Conv2d):
    """A convolution [B, C, H, W] -> [B, D, h, w] of stride s whose input's gradient is computed in s * s phases.

    Pixels at the same place within their s x s block, a phase, meet the same weights: their gradient is a convolution, of
    stride 1, of the output's gradient, and all phases together are one convolution with s * s * C outputs.
    """

    phases: Tensor

    def __init__(self, like: nn.Conv2d) -> None:
        super().__init__(like.in_channels, like.out_channels, 1, device="meta")
        self.kernel_size, self.stride, self.padding = like.kernel_size, like.stride, like.padding
        self.weight, self.bias = like.weight, like.bias
        self.register_buffer("phases", _phases(like))

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = _Convolution.apply(x, self)
        return made


class QuickAvgPool2d(nn.AvgPool2d):
    """An average pool of stride 1 that keeps the size and counts zeros beyond the border: its own transpose."""

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = _AveragePool.apply(x, self.kernel_size, self.padding)
        return made


class QuickReLU(nn.ReLU):
    """max(x, 0), in place if asked; its gradient is written over the one that is given."""

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = _ReLU.apply(x, self.inplace)
        return made


class _Convolution(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, layer: QuickConv2d) -> Tensor:
        ctx.layer, ctx.size = layer, x.shape[2:]
        return F.conv2d(x, layer.weight, layer.bias, layer.stride, layer.padding)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        layer, size, stride = ctx.layer, ctx.size, ctx.layer.stride[0]
        blocks = [-(-side // stride) for side in size]
        reaches = [_reach(layer, axis) for axis in (0, 1)]
        # As many zeros on both sides, though one may need fewer: the surplus is cut off.
        margins = [
            max(-first, n + last - had, 0)
            for (first, last), n, had in zip(reaches, blocks, gradient.shape[2:], strict=True)
        ]
        of_phases = F.conv2d(gradient, layer.phases.to(gradient.dtype), padding=margins)
        top, left = (margin + first for margin, (first, _) in zip(margins, reaches, strict=True))
        of_phases = of_phases[:, :, top : top + blocks[0], left : left + blocks[1]]
        return _to_pixels(of_phases, stride)[:, :, : size[0], : size[1]], None


class _AveragePool(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, kernel: Any, padding: Any) -> Tensor:
        ctx.pool = functools.partial(F.avg_pool2d, kernel_size=kernel, stride=1, padding=padding)
        made: Tensor = ctx.pool(x)
        return made

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return ctx.pool(gradient), None, None


class _ReLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, inplace: bool) -> Tensor:
        made = x.relu_() if inplace else x.relu()
        if inplace:
            ctx.mark_dirty(x)
        ctx.save_for_backward(made)
        return made

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (positive,) = ctx.saved_tensors
        made = torch.ops.aten.threshold_backward
        # Not into one number that stands for all places, nor into a slice, which the next convolution copies anyhow.
        if gradient.stride() != positive.stride():
            return made(gradient, positive, 0), None
        return made.grad_input(gradient, positive, 0, grad_input=gradient), None


def _sharing(network: EmbeddingModel) -> EmbeddingModel:
    """A copy of the modules with the same parameters and buffers."""
    return copy.deepcopy(network, {id(t): t for t in (*network.parameters(), *network.buffers())})


def _replace(module: nn.Module, kinds: Kinds) -> int:
    """Replace what can be; how much was."""
    count = 0
    for name, child in module.named_children():
        # Subclasses may compute something else.
        made = kinds[type(child)](child) if type(child) in kinds else None
        if made is None:
            count += _replace(child, kinds)
        else:
            setattr(module, name, made)
            count += 1
    return count


def _quick_convolution(layer: nn.Conv2d) -> nn.Module | None:
    plain = layer.groups == 1 and layer.dilation == (1, 1) and layer.padding_mode == "zeros"
    square = len(set(layer.stride)) == 1 and not isinstance(layer.padding, str)
    pays = layer.in_channels <= FEW and layer.stride[0] > 1 and min(layer.kernel_size) >= KERNEL
    return QuickConv2d(layer) if plain and square and pays else None


def _quick_pool(layer: nn.AvgPool2d) -> nn.Module | None:
    kernel, stride, padding = (_pair(v) for v in (layer.kernel_size, layer.stride, layer.padding))
    same = stride == (1, 1) and all(k == 2 * p + 1 for k, p in zip(kernel, padding, strict=True))
    # Where only true neighbours count, places at the border weigh theirs differently: the transpose is another matrix.
    plain = layer.count_include_pad and layer.divisor_override is None
    return QuickAvgPool2d(kernel, stride=1, padding=padding) if same and plain else None


WITHOUT_ACTIVATIONS: Kinds = {nn.Conv2d: _quick_convolution, nn.AvgPool2d: _quick_pool}
ALL: Kinds = WITHOUT_ACTIVATIONS | {nn.ReLU: lambda layer: QuickReLU(layer.inplace)}


def _reach(layer: nn.Conv2d, axis: int) -> tuple[int, int]:
    """The first and last block, counted from a pixel's own, whose output the pixel is part of."""
    kernel, stride, padding = layer.kernel_size[axis], layer.stride[axis], int(layer.padding[axis])
    return -((kernel - 1 - padding) // stride), (stride - 1 + padding) // stride


def _phases(layer: nn.Conv2d) -> Tensor:
    """Weights [C * s * s, D, blocks, blocks], of input channel c at place (y, x) of its block in row-major order."""
    (stride, _), (height, width) = layer.stride, layer.kernel_size
    (top, bottom), (left, right) = _reach(layer, 0), _reach(layer, 1)
    made = layer.weight.new_zeros(
        layer.in_channels, stride, stride, layer.out_channels, bottom - top + 1, right - left + 1
    )
    for y, x in itertools.product(range(stride), repeat=2):
        for down, across in itertools.product(range(top, bottom + 1), range(left, right + 1)):
            # Output o covers pixels s * o - p + (0 .. k - 1).
            row, column = (
                y + int(layer.padding[0]) - stride * down,
                x + int(layer.padding[1]) - stride * across,
            )
            if 0 <= row < height and 0 <= column < width:
                made[:, y, x, :, down - top, across - left] = layer.weight[:, :, row, column].T
    return made.flatten(0, 2).contiguous(memory_format=torch.channels_last)


def _to_pixels(of_phases: Tensor, stride: int) -> Tensor:
    """Phases [B, C * s * s, h, w] to pixels [B, C, s * h, s * w]: as ``pixel_shuffle`` does, but quicker here."""
    n, _, h, w = of_phases.shape
    blocks = of_phases.unflatten(1, (-1, stride, stride)).permute(0, 1, 4, 2, 5, 3)
    return blocks.contiguous().view(n, -1, h * stride, w * stride)


def _gradient(network: EmbeddingModel) -> Tensor:
    """Of a random direction's share in a random picture's embedding, with respect to the picture."""
    weight, size = network.embedder.weight, network.input_size
    generator = seeds.torch_generator("input gradient check")
    picture = 255 * torch.rand(1, 3, size, size, generator=generator).to(weight.dtype)
    direction = torch.randn(network.dim, generator=generator).to(weight.dtype)
    x = network.preprocess(picture).contiguous(memory_format=torch.channels_last).requires_grad_()
    with torch.enable_grad():
        (gradient,) = torch.autograd.grad((network(x) @ direction).sum(), x)
    return gradient


def _pair(value: int | tuple[int, int]) -> tuple[int, int]:
    return value if isinstance(value, tuple) else (value, value)
