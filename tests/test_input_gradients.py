"""Quicker gradients of a photo are the same gradients: against autograd's own, layer by layer and through whole backbones."""

from __future__ import annotations

import copy

import backbone_models
import pytest
import torch
from torch import Tensor, nn

from bgbias import input_gradients, seeds
from bgbias.device import autocast
from bgbias.input_gradients import QuickAvgPool2d, QuickConv2d, QuickReLU, for_input_gradients
from bgbias.model import EmbeddingModel, for_inference

LAST = torch.channels_last


def random(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=seeds.torch_generator("test", *shape), dtype=torch.float64)


def gradients(*layers: nn.Module, x: Tensor) -> list[Tensor]:
    """Of one random share of each layer's output, with respect to the same ``x``."""
    found = []
    for layer in layers:
        leaf = x.clone().requires_grad_()
        made = layer(1 * leaf)  # an activation may not write over a leaf
        found.append(torch.autograd.grad((made * random(*made.shape).to(made)).sum(), leaf)[0])
    return found


@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "height", "width"),
    [
        (7, 2, 3, 29, 29),  # BN-Inception and ResNet; the last row of the padding is not reached
        (7, 2, 3, 28, 31),
        (3, 2, 1, 33, 32),
        (4, 4, 0, 56, 56),  # patches
        (4, 4, 0, 58, 57),  # whose last pixels no patch covers
        (5, 3, 2, 31, 20),
        (2, 3, 0, 20, 20),  # pixels between the patches
        (2, 2, 5, 17, 12),  # more padding than kernel
        ((3, 5), 2, (0, 2), 19, 18),
        (8, 2, 0, 21, 21),
    ],
)
def test_a_strided_convolution(
    kernel: int | tuple[int, int], stride: int, padding: int | tuple[int, int], height: int, width: int
) -> None:
    layer = nn.Conv2d(3, 5, kernel, stride, padding).double().requires_grad_(False)
    quick, x = QuickConv2d(layer), random(2, 3, height, width)
    assert torch.equal(quick(x), layer(x))
    expected, found = gradients(layer, quick, x=x)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kernel", [3, 5, (3, 1)])
def test_an_average_pool(kernel: int | tuple[int, int]) -> None:
    padding = tuple((k - 1) // 2 for k in kernel) if isinstance(kernel, tuple) else (kernel - 1) // 2
    layer, x = nn.AvgPool2d(kernel, 1, padding), random(2, 4, 9, 7)
    expected, found = gradients(layer, QuickAvgPool2d(kernel, 1, padding), x=x)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "layer",
    [
        nn.AvgPool2d(3, 2, 1),
        nn.AvgPool2d(3, 1, 0),
        nn.AvgPool2d(3, 1, 1, count_include_pad=False),
        nn.AvgPool2d(2, 1, 1),
        nn.AvgPool2d(3, 1, 1, divisor_override=2),
        nn.Conv2d(3, 6, 3, 2, 1, groups=3),
        nn.Conv2d(3, 6, 3, 2, 1, dilation=2),
        nn.Conv2d(3, 6, 3, 2, 1, padding_mode="reflect"),
        nn.Conv2d(3, 6, 3, (2, 1)),
        nn.Conv2d(3, 6, 3, padding="same"),
    ],
    ids=str,
)
def test_layers_of_another_kind_stay(layer: nn.Module) -> None:
    network = nn.Sequential(layer)
    input_gradients._replace(network, input_gradients.ALL)
    assert network[0] is layer


def test_an_activation_writes_over_the_gradient_it_is_given_and_over_nothing_that_is_shared() -> None:
    x = random(2, 4, 5, 5)
    expected, found = gradients(nn.ReLU(), QuickReLU(), x=x)
    assert torch.equal(found, expected)
    leaf = x.clone().requires_grad_()
    given = random(2, 4, 5, 5)
    before = given.clone()
    torch.autograd.grad(QuickReLU()(1 * leaf), leaf, given)
    assert not torch.equal(given, before)
    # One number for all places, and slices of something larger.
    for shared in (torch.ones(1, dtype=torch.float64).expand(2, 4, 5, 5), random(2, 8, 5, 5)[:, 2:6]):
        before = shared.clone()
        (made,) = torch.autograd.grad(QuickReLU()(1 * leaf), leaf, shared)
        assert torch.equal(made, before * (x > 0))
        assert torch.equal(shared, before)


def model(name: str) -> EmbeddingModel:
    made = backbone_models.make(name).eval()
    backbone_models.unsettle(made)
    return for_inference(made)


def of_photos(network: EmbeddingModel, precision: str) -> Tensor:
    """The gradient of an embedding's share, as attribution takes it."""
    size = network.input_size
    x = random(3, 3, size, size).float().contiguous(memory_format=LAST).requires_grad_()
    with autocast("cpu", precision):
        embeddings = network(x)
    return torch.autograd.grad((embeddings @ random(network.dim).float()).sum(), x)[0]


@pytest.mark.parametrize("name", backbone_models.BACKBONES)
def test_every_backbone_keeps_its_gradients(name: str) -> None:
    network = model(name)
    quick = for_input_gradients(network)
    expected, found = of_photos(network, "fp32"), of_photos(quick, "fp32")
    assert (found - expected).abs().max() <= 1e-4 * expected.abs().max()
    # bfloat16 rounds elsewhere, but no more.
    expected, found = of_photos(network, "bf16"), of_photos(quick, "bf16")
    exact = of_photos(network, "fp32")
    assert (found - exact).norm() <= 1.5 * (expected - exact).norm() + 1e-6 * exact.norm()


def test_bn_inception_gets_all_of_it() -> None:
    kinds = {type(layer) for layer in for_input_gradients(model("bn_inception")).modules()}
    assert {QuickConv2d, QuickAvgPool2d, QuickReLU} <= kinds


class Residual(nn.Module):
    """Its sum hands one gradient to an activation and to the path past it."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, 2, 1)
        self.before, self.inside = nn.ReLU(), nn.ReLU()
        self.within = nn.Conv2d(8, 8, 3, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.before(self.stem(x))
        return x + self.inside(self.within(x))


def test_where_activations_share_a_gradient_they_stay() -> None:
    network = model("tiny")
    network.trunk = nn.Sequential(Residual(), nn.Conv2d(8, 192, 1)).requires_grad_(False)
    spoilt = copy.deepcopy(network)
    input_gradients._replace(spoilt.trunk, input_gradients.ALL)
    expected = of_photos(network, "fp32")
    assert not torch.allclose(of_photos(spoilt, "fp32"), expected, rtol=1e-2)
    quick = for_input_gradients(network)
    kinds = {type(layer) for layer in quick.modules()}
    assert QuickConv2d in kinds
    assert QuickReLU not in kinds
    torch.testing.assert_close(of_photos(quick, "fp32"), expected)


def test_a_network_that_computes_otherwise_with_the_replaced_layers_is_left_alone() -> None:
    class Peculiar(nn.Module):
        """Looks at the kind of its layer."""

        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Conv2d(3, 192, 3, 2, 1)

        def forward(self, x: Tensor) -> Tensor:
            made: Tensor = self.stem(x)
            return made if type(self.stem) is nn.Conv2d else made.square()

    network = model("tiny")
    network.trunk = Peculiar().requires_grad_(False)
    assert for_input_gradients(network) is network
