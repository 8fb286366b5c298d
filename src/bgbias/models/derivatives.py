"""A model whose gradients with respect to its photos can be differentiated again, for penalties on them."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.grad import conv2d_input, conv2d_weight
from torch.overrides import TorchFunctionMode

from bgbias.models.model import EmbeddingModel


@contextmanager
def differentiable_twice(model: EmbeddingModel) -> Iterator[None]:
    """Passes of the model inside are in float32 and in evaluation mode, of operations that have a second derivative.

    Fused kernels of attention have none, nor has the hard sigmoid of MobileNetV3; that of a grouped convolution goes through the
    groups one by one. The model's mode is put back afterwards.
    """
    with ExitStack() as stack:
        stack.callback(model.train, model.training)
        stack.enter_context(torch.autocast(model.embedder.weight.device.type, enabled=False))
        stack.enter_context(sdpa_kernel(SDPBackend.MATH))
        stack.enter_context(_Composed())
        model.eval()
        yield


class _Composed(TorchFunctionMode):
    """Replaces the hard sigmoid by operations that make it up, and grouped convolutions by ones of our own."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func is F.hardsigmoid:
            return F.relu6(args[0] + 3) / 6
        if func is F.conv2d:
            return _convolve(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


def _convolve(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    if groups == 1 or isinstance(padding, str):
        return F.conv2d(x, weight, bias, stride, padding, dilation, groups)
    result: Tensor = _Grouped.apply(x, weight, (stride, padding, dilation, groups))
    return result if bias is None else result + bias[:, None, None]


class _Grouped(torch.autograd.Function):
    """A grouped convolution without bias. ``how``: stride, padding, dilation and groups."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, how: tuple[Any, ...]) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.how = how
        return F.conv2d(x, weight, None, *how)

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        x, weight = ctx.saved_tensors
        by_x, by_weight = ctx.needs_input_grad[:2]
        return (
            _GroupedByInput.apply(slope, weight, x.shape, ctx.how) if by_x else None,
            conv2d_weight(x, weight.shape, slope, *ctx.how) if by_weight else None,
            None,
        )


class _GroupedByInput(torch.autograd.Function):
    """The slope of a grouped convolution by its input: bilinear in its own slope and the weights, as the convolution is."""

    @staticmethod
    def forward(ctx: Any, slope: Tensor, weight: Tensor, size: torch.Size, how: tuple[Any, ...]) -> Tensor:
        ctx.save_for_backward(slope, weight)
        ctx.how = how
        return conv2d_input(size, weight, slope, *how)

    @staticmethod
    def backward(ctx: Any, by_x: Tensor) -> tuple[Tensor, Tensor, None, None]:
        slope, weight = ctx.saved_tensors
        return (
            F.conv2d(by_x, weight, None, *ctx.how),
            conv2d_weight(by_x, weight.shape, slope, *ctx.how),
            None,
            None,
        )
