"""Distances that can be differentiated twice: those of the library, bit for bit."""

from __future__ import annotations

import pytest
import torch
from pytorch_metric_learning.distances import LpDistance
from torch import Tensor
from torch.nn.functional import normalize

from bgbias import seeds
from bgbias.training.losses._parts import EuclideanDistance


@pytest.mark.parametrize("count", [8, 32])  # torch computes them in two ways
def test_distances_and_their_gradients_are_those_of_the_library_bit_for_bit(count: int) -> None:
    drawn = torch.randn(count, 16, generator=seeds.torch_generator("vectors", count))
    pull = torch.randn(count, count, generator=seeds.torch_generator("pull", count))
    found = []
    for distance in (EuclideanDistance(), LpDistance(normalize_embeddings=True, p=2, power=1)):
        z = drawn.clone().requires_grad_()
        values = distance(z)
        values.backward(pull)
        found.append((values, z.grad))
    assert torch.equal(found[0][0], found[1][0])
    assert torch.equal(found[0][1], found[1][1])  # type: ignore[arg-type]


def test_second_derivative_of_distances_is_right_and_finite_where_two_are_the_same() -> None:
    drawn = torch.randn(5, 3, generator=seeds.torch_generator("vectors"), dtype=torch.float64)

    def distances(a: Tensor, b: Tensor) -> Tensor:
        return EuclideanDistance()(normalize(a), normalize(b))

    pair = drawn.requires_grad_(), drawn.detach().flip(1).requires_grad_()
    assert torch.autograd.gradgradcheck(distances, pair)
    same = torch.ones(32, 4, requires_grad=True)
    (first,) = torch.autograd.grad(EuclideanDistance()(same).sum(), same, create_graph=True)
    (second,) = torch.autograd.grad(first.square().sum(), same)
    assert first.isfinite().all()
    assert second.isfinite().all()
