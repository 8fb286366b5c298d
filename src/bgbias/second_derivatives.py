"""A model whose gradients with respect to its photos can be differentiated again, for penalties on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode

from bgbias.model import EmbeddingModel


@contextmanager
def differentiable_twice(model: EmbeddingModel) -> Iterator[None]:
    """Passes of the model inside are in float32 and in evaluation mode, of operations that have a second derivative.

    Fused kernels of attention have none, nor has the hard sigmoid of MobileNetV3. The model's mode is put back afterwards.
    """
    with ExitStack() as stack:
        stack.callback(model.train, model.training)
        stack.enter_context(torch.autocast(model.embedder.weight.device.type, enabled=False))
        stack.enter_context(sdpa_kernel(SDPBackend.MATH))
        stack.enter_context(_Composed())
        model.eval()
        yield


class _Composed(TorchFunctionMode):
    """Replaces the hard sigmoid by operations that make it up."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func is F.hardsigmoid:
            return F.relu6(args[0] + 3) / 6
        return func(*args, **(kwargs or {}))
