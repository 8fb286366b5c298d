"""Similarity mining: which tuples a batch has, and what their loss is (docs/methods.md, sections 7 and 11, G9c)."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from bgbias import seeds
from bgbias.training.methods import _sam as mining

MASKED = [torch.tensor([v], dtype=torch.float64) for v in ([1.0, 0.0], [0.6, 0.8], [0.0, 1.0])]


def batch(seed: int, classes: int = 4, each: int = 3) -> tuple[Tensor, Tensor]:
    generator = seeds.torch_generator("test mining", seed)
    vectors = torch.randn(classes * each, 3, generator=generator, dtype=torch.float64)
    return torch.nn.functional.normalize(vectors, dim=1), torch.arange(classes).repeat_interleave(each)


def distance(a: Tensor, b: Tensor) -> float:
    return math.dist(a.tolist(), b.tolist())


def chosen(seed: int, negatives: int) -> tuple[Tensor, Tensor, Tensor]:
    embeddings, labels = batch(seed)
    generator = seeds.torch_generator("tuples", seed)
    found = mining.pairs(labels, generator)
    for _ in range(negatives):
        found = mining.with_negatives(found, embeddings, labels, generator)
    return found, embeddings, labels


def test_golden_losses() -> None:
    assert mining.mining_loss(MASKED).item() == pytest.approx(0.519786, abs=5e-7)
    assert mining.mining_loss(MASKED[:2]).item() == pytest.approx(-0.894427, abs=5e-7)


def test_loss_agrees_with_its_naive_twin() -> None:
    generator = seeds.torch_generator("masked")
    roles = [torch.randn(5, 3, generator=generator, dtype=torch.float64) for _ in range(4)]
    pair, triplet, quadruplet = 0.0, 0.0, 0.0
    for a, p, n1, n2 in zip(*roles, strict=True):
        pair -= distance(a, p) / 5
        first, second = (abs(distance(a, p) - distance(a, n)) / 5 for n in (n1, n2))
        triplet += first
        quadruplet += first + second
    found = [mining.mining_loss(roles[:n]).item() for n in (2, 3, 4)]
    assert found == pytest.approx([pair, triplet, quadruplet])


def test_equal_masked_photos_have_a_finite_gradient() -> None:
    """Both wiped out to the mean colour: the distance is 0, where a root has no slope."""
    for count in (2, 3, 4):
        roles = [torch.ones(2, 3, requires_grad=True) for _ in range(count)]
        mining.mining_loss(roles).backward()  # type: ignore[no-untyped-call]
        assert all(r.grad is not None and r.grad.isfinite().all() for r in roles)


@pytest.mark.parametrize("negatives", [0, 1, 2])
@pytest.mark.parametrize("seed", range(5))
def test_tuples_are_what_they_are_called(negatives: int, seed: int) -> None:
    found, _, labels = chosen(seed, negatives)
    assert found[:, 0].tolist() == list(range(12))
    assert found.shape == (12, 2 + negatives)
    for a, p, *others in found.tolist():
        assert a != p
        assert labels[a] == labels[p]
        assert len({int(labels[i]) for i in (a, *others)}) == 1 + negatives


@pytest.mark.parametrize("negatives", [1, 2])
@pytest.mark.parametrize("seed", range(5))
def test_negatives_are_the_closest_beyond_the_positive(negatives: int, seed: int) -> None:
    """A search by loops; where nothing lies beyond the positive, any photo of a class not yet taken will do."""
    found, z, labels = chosen(seed, negatives)
    for row in found.tolist():
        a, p = row[:2]
        taken = {int(labels[a])}
        for n in row[2:]:
            beyond = [
                i
                for i in range(12)
                if int(labels[i]) not in taken and distance(z[a], z[i]) > distance(z[a], z[p])
            ]
            if beyond:
                assert n == min(beyond, key=lambda i: distance(z[a], z[i]))
            taken.add(int(labels[n]))


def test_random_choices_reach_every_candidate_about_equally() -> None:
    labels = torch.tensor([0, 0, 0, 1, 1])
    counts = torch.zeros(5, 5)
    for i in range(600):
        for a, p in mining.pairs(labels, seeds.torch_generator("many", i)).tolist():
            counts[a, p] += 1
    assert counts[0, 1:3].min() > 240
    assert counts[3, 4] == 600


def test_choices_depend_on_the_generator_alone() -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = chosen(3, 2)[0]
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    assert torch.equal(chosen(3, 2)[0], first)


def test_random_negative_where_the_positive_is_the_farthest() -> None:
    """Photo 1 is opposite to its anchor 0: every foreigner is closer."""
    z = torch.nn.functional.normalize(
        torch.tensor([[1.0, 0.0], [-1.0, 0.0], [1.0, 0.5], [1.0, -0.5], [0.9, 0.1]]), dim=1
    )
    labels = torch.tensor([0, 0, 1, 1, 2])
    drawn = set()
    for i in range(40):
        generator = seeds.torch_generator("farthest", i)
        found = mining.with_negatives(torch.tensor([[0, 1]]), z, labels, generator)
        drawn.add(int(found[0, 2]))
        assert len(mining.satisfied(found, z)) == 0
    assert drawn == {2, 3, 4}


def test_negative_as_far_as_the_positive_is_not_beyond_it() -> None:
    z = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, -1.0], [-1.0, 0.0]])
    generator = seeds.torch_generator("tie")
    found = mining.with_negatives(torch.tensor([[0, 1]]), z, torch.tensor([0, 0, 1, 2]), generator)
    assert found.tolist() == [[0, 1, 3]]
    tied = torch.tensor([[0, 1, 2]])
    assert len(mining.satisfied(tied, z)) == 0


@pytest.mark.parametrize("negatives", [1, 2])
def test_satisfied_keeps_those_whose_positive_is_closest(negatives: int) -> None:
    found, z, _ = chosen(1, negatives)
    expected = [
        row
        for row in found.tolist()
        if all(distance(z[row[0]], z[row[1]]) < distance(z[row[0]], z[n]) for n in row[2:])
    ]
    assert 0 < len(expected) < len(found)
    assert mining.satisfied(found, z).tolist() == expected


def test_photos_without_partner_and_tuples_without_class_are_left_out() -> None:
    labels = torch.tensor([0, 0, 1])
    generator = seeds.torch_generator("few")
    found = mining.pairs(labels, generator)
    assert found.tolist() == [[0, 1], [1, 0]]
    z = torch.eye(3)
    triplets = mining.with_negatives(found, z, labels, generator)
    assert triplets.tolist() == [[0, 1, 2], [1, 0, 2]]
    assert mining.with_negatives(triplets, z, labels, generator).shape == (0, 4)
