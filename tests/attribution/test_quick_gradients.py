"""Quicker gradients of a photo are the same gradients: against autograd's own, layer by layer and through whole backbones."""

from __future__ import annotations

import copy

import backbone_models
import pytest
import torch
from torch import Tensor, nn

from bgbias import seeds
from bgbias.attribution import quick_gradients
from bgbias.attribution.quick_gradients import QuickAvgPool2d, QuickConv2d, QuickReLU, for_input_gradients
from bgbias.compute.device import autocast
from bgbias.models.inference import for_inference
from bgbias.models.model import EmbeddingModel

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
    layer = nn.Conv2d(3, 5, kernel, stride, padding).double()
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
        nn.Conv2d(3, 6, 3, 2, 1),
        nn.Conv2d(8, 6, 4, 2, 1),
        nn.Conv2d(3, 6, 4, 2, 1, groups=3),
        nn.Conv2d(3, 6, 4, 2, 1, dilation=2),
        nn.Conv2d(3, 6, 4, 2, 1, padding_mode="reflect"),
        nn.Conv2d(3, 6, 4, (2, 1)),
        nn.Conv2d(3, 6, 4, padding="same"),
    ],
    ids=str,
)
def test_layers_of_another_kind_stay(layer: nn.Module) -> None:
    network = nn.Sequential(layer)
    quick_gradients._replace(network, quick_gradients.ALL)
    assert network[0] is layer


def test_an_activation_writes_over_the_gradient_it_is_given_and_over_nothing_that_is_shared() -> None:
    x = random(2, 4, 5, 5)
    expected, *found = gradients(nn.ReLU(), QuickReLU(), QuickReLU(inplace=True), x=x)
    assert all(torch.equal(f, expected) for f in found)
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


QUICK: dict[str, set[type]] = {
    "bn_inception": {QuickConv2d, QuickAvgPool2d, QuickReLU},
    "resnet18": {QuickConv2d, QuickReLU},
    "tiny": {QuickConv2d, QuickReLU},
    "timm:vit_tiny_patch16_224": {QuickConv2d},
    "timm:mobilenetv3_small_050": {QuickReLU},
    "mobilenet_v2": set(),  # its first convolution is 3x3, its activations are no ReLUs
    "mobilenet_v2_tf": set(),
}


def quick_kinds(network: nn.Module) -> set[type]:
    return {type(layer) for layer in network.modules()} & {QuickConv2d, QuickAvgPool2d, QuickReLU}


@pytest.mark.parametrize("name", backbone_models.BACKBONES)
def test_every_backbone_keeps_its_gradients(name: str) -> None:
    network = model(name)
    quick = for_input_gradients(network)
    assert quick_kinds(quick) == QUICK.get(name, quick_kinds(quick))
    assert quick_kinds(network) == set()
    assert {p.data_ptr() for p in quick.parameters()} == {p.data_ptr() for p in network.parameters()}
    expected, found = of_photos(network, "fp32"), of_photos(quick, "fp32")
    assert (found - expected).abs().max() <= 1e-4 * expected.abs().max()
    # bfloat16 rounds elsewhere, but no more.
    exact, expected, found = expected, of_photos(network, "bf16"), of_photos(quick, "bf16")
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    assert (found - exact).norm() <= 1.5 * (expected - exact).norm() + 1e-6 * exact.norm()


def test_where_nothing_can_be_replaced_the_network_is_left_alone() -> None:
    network = model("mobilenet_v2")
    assert for_input_gradients(network) is network


class Residual(nn.Module):
    """Its sum hands one gradient to an activation and to the path past it."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 4, 2, 1)
        self.before, self.inside = nn.ReLU(), nn.ReLU()
        self.within = nn.Conv2d(8, 8, 3, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.before(self.stem(x))
        return x + self.inside(self.within(x))


def test_where_activations_share_a_gradient_they_stay() -> None:
    network = model("tiny")
    network.trunk = nn.Sequential(Residual(), nn.Conv2d(8, 192, 1)).requires_grad_(False)
    spoilt = copy.deepcopy(network)
    quick_gradients._replace(spoilt.trunk, quick_gradients.ALL)
    expected = of_photos(network, "fp32")
    assert not torch.allclose(of_photos(spoilt, "fp32"), expected, rtol=1e-2)
    quick = for_input_gradients(network)
    assert quick_kinds(quick) == {QuickConv2d}
    torch.testing.assert_close(of_photos(quick, "fp32"), of_photos(network, "fp32"))


class Beside(nn.Module):
    """An activation of what is needed as it was, which may not be written over."""

    def __init__(self, needed: str) -> None:
        super().__init__()
        self.stem, self.relu, self.needed = nn.Conv2d(3, 8, 4, 2, 1), nn.ReLU(), needed

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        if self.needed == "sigmoid":
            return self.relu(x.sigmoid() - 0.5) + self.relu(torch.sigmoid(x))
        if self.needed == "chunk":
            left, right = x.chunk(2, dim=1)
            return torch.cat([self.relu(left), right], 1)
        return x + self.relu(x)


@pytest.mark.parametrize("needed", ["sigmoid", "chunk", "itself"])
def test_what_an_activation_reads_stays_where_it_was_not_in_place(needed: str) -> None:
    network = model("tiny")
    network.trunk = nn.Sequential(Beside(needed), nn.Conv2d(8, 192, 1)).requires_grad_(False)
    quick = for_input_gradients(network)
    assert QuickConv2d in quick_kinds(quick)
    torch.testing.assert_close(of_photos(quick, "fp32"), of_photos(network, "fp32"))


class Refused(nn.Module):
    """Autograd refuses its gradient where an activation is in place."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.relu = nn.Conv2d(3, 192, 4, 2, 1), nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x).sigmoid()
        return self.relu(x.clone() if type(self.relu) is nn.ReLU else x)


def test_a_trial_that_autograd_refuses_is_one_that_differs() -> None:
    network = model("tiny")
    network.trunk = Refused().requires_grad_(False)
    quick = for_input_gradients(network)
    assert quick_kinds(quick) == {QuickConv2d}
    torch.testing.assert_close(of_photos(quick, "fp32"), of_photos(network, "fp32"))


def test_second_derivatives_are_refused_not_wrong() -> None:
    leaf = random(1, 3, 8, 8).requires_grad_()
    quick = QuickConv2d(nn.Conv2d(3, 5, 4, 4).double())
    (first,) = torch.autograd.grad(quick(leaf).square().sum(), leaf, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()


def test_a_network_that_computes_otherwise_with_the_replaced_layers_is_left_alone() -> None:
    class Peculiar(nn.Module):
        """Looks at the kind of its layer."""

        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Conv2d(3, 192, 4, 2, 1)

        def forward(self, x: Tensor) -> Tensor:
            made: Tensor = self.stem(x)
            return made if type(self.stem) is nn.Conv2d else made.square()

    network = model("tiny")
    network.trunk = Peculiar().requires_grad_(False)
    assert for_input_gradients(network) is network
