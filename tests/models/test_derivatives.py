"""Grouped convolutions of our own have the derivatives, first and second, of PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from backbone_models import make
from torch import Tensor

from bgbias import seeds
from bgbias.models.derivatives import _convolve, differentiable_twice

SHAPES: dict[str, dict[str, Any]] = {
    "depthwise": {"groups": 6, "padding": 1},
    "strided and not reaching the edge": {"groups": 6, "stride": 2},
    "dilated": {"groups": 3, "padding": (2, 1), "dilation": (2, 1)},
    "two groups": {"groups": 2},
    "named padding": {"groups": 6, "padding": "same"},
}


def derivatives(convolution: Callable[..., Tensor], how: dict[str, Any], bias: bool) -> list[Tensor]:
    """The output, its curved sum's gradient by the input, and the gradients of that one's size by everything."""
    generator = seeds.torch_generator("convolution")
    shapes = [(2, 6, 8, 7), (6, 6 // how["groups"], 3, 3), *([(6,)] if bias else [])]
    given = [torch.randn(s, generator=generator, dtype=torch.float64).requires_grad_() for s in shapes]
    made = convolution(*given, **how)
    (slope,) = torch.autograd.grad(made.sin().sum(), given[0], create_graph=True)
    return [made, slope, *torch.autograd.grad(slope.square().sum(), given)]


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("how", SHAPES.values(), ids=list(SHAPES))
def test_derivatives_agree_with_pytorchs(how: dict[str, Any], bias: bool) -> None:
    for found, expected in zip(
        derivatives(_convolve, how, bias), derivatives(F.conv2d, how, bias), strict=True
    ):
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


def test_a_networks_grouped_convolutions_are_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """And what the network gives stays the same."""
    model = make("mobilenet_v2").eval()
    side = model.input_size
    x = torch.rand(1, 3, side, side, generator=seeds.torch_generator("photo"))
    expected, seen = model(x), list[int]()

    def watched(*args: Any) -> Tensor:
        seen.append(args[6])
        return _convolve(*args)

    monkeypatch.setattr("bgbias.models.derivatives._convolve", watched)
    with differentiable_twice(model):
        found = model(x)
    assert sum(groups > 1 for groups in seen) == 17
    torch.testing.assert_close(found, expected)
