"""Losses, alone and with further negatives: naive twins, and what holds for all of them (docs/methods.md, sections 1 and 6)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from fitting import CUB
from pytorch_metric_learning.distances import LpDistance
from torch import Tensor
from torch.nn.functional import normalize

from bgbias import plugins, seeds
from bgbias.training.losses._parts import EuclideanDistance
from bgbias.training.repulsions import Further

FAMILY, REPELLED = plugins.names("losses"), plugins.names("repulsions")

Settings = dict[str, Any]
Vectors = Sequence[Sequence[float]]


def build(name: str, settings: Settings, n_classes: int = 3, dim: int = 2, seed: int = 0) -> Any:
    module = plugins.load("losses", name)
    return module.build(module.Params(**settings), n_classes, dim, seeds.torch_generator("test", seed))


def random_batch(seed: int, classes: int = 5, size: int = 16, dim: int = 6) -> tuple[Tensor, Tensor]:
    generator = seeds.torch_generator("test batch", seed)
    embeddings = torch.randn(size, dim, generator=generator, dtype=torch.float64)
    labels = torch.randint(classes, (size,), generator=generator)
    return normalize(embeddings, dim=1), labels


# Naive twins: docs/methods.md, sections 1 and 6, written as loops over Python numbers. ``more``: each anchor's further negatives.


def dot(a: Sequence[float], b: Sequence[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def mean_of_non_zero(values: list[float]) -> float:
    values = [v for v in values if v > 0]
    return sum(values) / len(values) if values else 0.0


def naive_pairs(name: str, z: Vectors, y: list[int], s: Settings, more: list[Vectors], kappa: float) -> float:
    rows = range(len(y))
    if name == "contrastive":
        pairs = list(itertools.permutations(rows, 2))
        near = [math.dist(z[i], z[j]) - s["pos_margin"] for i, j in pairs if y[i] == y[j]]
        far = [s["neg_margin"] - math.dist(z[i], z[j]) for i, j in pairs if y[i] != y[j]]
        beyond = [s["neg_margin"] - math.dist(z[i], n) for i in rows for n in more[i]]
        return mean_of_non_zero(near) + mean_of_non_zero(far) + kappa * mean_of_non_zero(beyond)
    margin, total = s["margin"], 0.0
    positives = [(a, p) for a, p in itertools.permutations(rows, 2) if y[a] == y[p]]

    def excess(negatives: list[Vectors]) -> float:
        return mean_of_non_zero(
            [math.dist(z[a], z[p]) - math.dist(z[a], n) + margin for a, p in positives for n in negatives[a]]
        )

    if name == "quadruplet":
        total = mean_of_non_zero(
            [
                math.dist(z[a], z[p]) - math.dist(z[n], z[m]) + margin / 2
                for a, p in positives
                for n, m in itertools.permutations(rows, 2)
                if len({y[a], y[n], y[m]}) == 3
            ]
        )
    return total + excess([[z[j] for j in rows if y[j] != y[i]] for i in rows]) + kappa * excess(more)


def naive_sums(
    name: str, z: Vectors, y: list[int], s: Settings, more: list[Vectors], kappa: float, alpha: float
) -> float:
    each = []
    for i, anchor in enumerate(z):
        near = [dot(anchor, z[j]) for j in range(len(y)) if y[j] == y[i] and j != i]
        far = [dot(anchor, z[j]) for j in range(len(y)) if y[j] != y[i]]
        if name == "roth_multi_similarity":
            hard = [c for c in near if far and c - s["epsilon"] < max(far)]
            far = [c for c in far if near and c + s["epsilon"] > min(near)]
            near = hard
            if not near or not far:
                continue
        pull = sum(math.exp(-s["alpha"] * (c - s["base"])) for c in near)
        push = sum(math.exp(s["beta"] * (c - s["base"])) for c in far)
        push += sum(kappa * math.exp(s["beta"] * (alpha * dot(anchor, n) - s["base"])) for n in more[i])
        each.append(math.log1p(pull) / s["alpha"] + math.log1p(push) / s["beta"])
    return sum(each) / len(each) if each else 0.0


def naive_softmax(
    name: str,
    z: Vectors,
    y: list[int],
    s: Settings,
    w: Vectors,
    more: list[Vectors],
    kappa: float,
    alpha: float,
) -> float:
    scale, total = s["scale"] if "scale" in s else 1 / s["temperature"], 0.0
    for anchor, own, negatives in zip(z, y, more, strict=True):
        cosines = [dot(anchor, row) / math.hypot(*row) for row in w]
        if name == "cosface":
            cosines[own] -= s["margin"]
        if name == "arcface":
            angle, margin = math.acos(cosines[own]), math.radians(s["margin"])
            is_far = angle > math.pi - margin
            cosines[own] = math.cos(angle) - margin * math.sin(margin) if is_far else math.cos(angle + margin)
        if name == "roth_arcface":
            cosines = [max(c, 0.0) for c in cosines]
            moved = math.cos(math.acos(cosines[own]) + s["margin"]) - cosines[own]
            cosines = [c + moved * (s["bug"] or i == own) for i, c in enumerate(cosines)]
        logits = [scale * c for c in cosines]
        logits += [scale * alpha * dot(anchor, n) + math.log(kappa) for n in negatives]
        total += math.log(sum(math.exp(x - logits[own]) for x in logits))
    return total / len(y)


def naive(
    name: str,
    settings: Settings,
    loss: torch.nn.Module,
    embeddings: Tensor,
    labels: Tensor,
    further: Further | None = None,
) -> float:
    z, y, more, kappa, alpha = embeddings.tolist(), labels.tolist(), [[] for _ in labels], 1.0, 1.0
    if further is not None:
        more = [n[c].tolist() for n, c in zip(further.embeddings, further.counts, strict=True)]
        kappa, alpha = further.kappa, further.alpha
    if name in ("contrastive", "triplet", "quadruplet"):
        return naive_pairs(name, z, y, settings, more, kappa)
    if "similarity" in name:
        return naive_sums(name, z, y, settings, more, kappa, alpha)
    (weights,) = (p.double().T.tolist() for p in loss.parameters())
    return naive_softmax(name, z, y, settings, weights, more, kappa, alpha)


# Gentle ones, with which every pair and negative has a say.
MILD = CUB | {
    "contrastive": {"pos_margin": 0.2, "neg_margin": 1.4},
    "triplet": {"margin": 0.5},
    "multi_similarity": {"alpha": 2, "beta": 10, "base": 0.5},
    "arcface": {"margin": 5, "scale": 8, "lr": 1},
    "cosface": {"margin": 0.2, "scale": 8, "lr": 1},
    "roth_arcface": {"margin": 0.5, "scale": 8, "lr": 1, "bug": True},
}


@pytest.mark.parametrize("settings", [CUB, MILD], ids=["published", "mild"])
@pytest.mark.parametrize("name", FAMILY)
def test_agrees_with_its_naive_twin(name: str, settings: dict[str, Settings]) -> None:
    z, y = random_batch(0)
    loss = build(name, settings[name], n_classes=5, dim=6).double()
    expected = naive(name, settings[name], loss, z, y)
    assert loss(z, y).item() == pytest.approx(expected, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("name", REPELLED)
@pytest.mark.parametrize(("kappa", "alpha", "width"), [(1.0, 1.0, 1), (0.3, 1.0, 16), (2.5, 0.5, 16)])
def test_further_negatives_agree_with_the_naive_twin(
    name: str, kappa: float, alpha: float, width: int
) -> None:
    (z, y), generator = random_batch(3), torch.Generator().manual_seed(width)
    pictures = normalize(torch.randn(16, width, 6, generator=generator, dtype=torch.float64), dim=2)
    counts = torch.rand(16, width, generator=generator) < 0.7
    base = build(name, MILD[name], n_classes=5, dim=6).double()
    repelled, further = plugins.load("repulsions", name).loss, Further(pictures, counts, kappa, alpha)
    twin, plain = naive(name, MILD[name], base, z, y, further), base(z, y)
    assert repelled(base, z, y, further).item() == pytest.approx(twin, rel=1e-9)
    assert abs(twin - plain.item()) > 1e-3  # they do say something
    none = Further(pictures, torch.zeros_like(counts), kappa, alpha)
    assert repelled(base, z, y, none).item() == pytest.approx(plain.item(), rel=1e-12)


@pytest.mark.parametrize("epsilon", [0.0, 0.05, 0.3])
def test_mining_leaves_out_easy_pairs(epsilon: float) -> None:
    """Close classes, of which some pairs are easy; as the naive twin has it, whatever is left out."""
    generator, y = seeds.torch_generator("close classes"), torch.arange(4).repeat_interleave(4)
    centres = normalize(torch.randn(4, 6, generator=generator, dtype=torch.float64), dim=1)
    z = normalize(centres[y] + 0.3 * torch.randn(16, 6, generator=generator, dtype=torch.float64), dim=1)
    settings = {"alpha": 2.0, "beta": 40.0, "base": 0.5, "epsilon": epsilon}
    loss = build("roth_multi_similarity", settings)
    found = loss(z, y).item()
    assert found == pytest.approx(naive("roth_multi_similarity", settings, loss, z, y), rel=1e-9)
    del settings["epsilon"]
    assert found != pytest.approx(build("multi_similarity", settings)(z, y).item(), rel=1e-3)


def test_arcface_goes_on_falling_beyond_180_degrees() -> None:
    # At 175 degrees from its own class, 20 more would turn back up: the second branch of the formula.
    angles = torch.tensor([150.0, 165.0, 175.0], dtype=torch.float64).deg2rad()
    z, y = torch.stack((angles.cos(), angles.sin()), 1), torch.tensor([0])
    settings = {"margin": 20, "scale": 10, "lr": 1}
    loss = build("arcface", settings)
    (weights,) = loss.parameters()
    weights.data = torch.tensor([[1.0, 0.0, -1.0], [0.0, 2.0, -1.0]], dtype=torch.float64)
    each = [loss(row[None], y).item() for row in z]
    assert each == sorted(each)
    assert each == pytest.approx([naive("arcface", settings, loss, row[None], y) for row in z])


# The contract of the family.


@pytest.mark.parametrize("name", FAMILY)
def test_finite_and_differentiable_and_out_of_mixed_precisions_reach(name: str) -> None:
    z, y = random_batch(1, dim=128)
    z = z.float().requires_grad_()
    loss = build(name, CUB[name], n_classes=5, dim=128)
    value = loss(z, y)
    value.backward()
    assert value.shape == ()
    assert value.isfinite()
    for weights in (z, *loss.parameters()):
        assert weights.grad is not None
        assert weights.grad.isfinite().all()
        assert weights.grad.abs().sum() > 0
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(loss(z, y), value)
        loss(z.bfloat16(), y)
    assert all(p.dtype == torch.float32 for p in loss.parameters())


@pytest.mark.parametrize("name", FAMILY)
def test_satisfied_batch_still_gives_a_gradient(name: str) -> None:
    """Identical positives, opposite negatives: nothing to mine, yet training goes on."""
    z = torch.tensor([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [-1.0, 0.0]], requires_grad=True)
    value = build(name, CUB[name])(z, torch.tensor([0, 0, 1, 1]))
    value.backward()
    assert value.isfinite()
    assert z.grad is not None
    assert z.grad.isfinite().all()


@pytest.mark.parametrize("name", FAMILY)
def test_class_weights_come_from_the_generator_alone(name: str) -> None:
    before = torch.get_rng_state()
    first, second, other = (list(build(name, CUB[name], 50, 128, seed).parameters()) for seed in (7, 7, 8))
    assert torch.equal(before, torch.get_rng_state())
    for a, b, c in zip(first, second, other, strict=True):
        assert a.shape == (128, 50)
        assert torch.equal(a, b)
        assert not torch.equal(a, c)
        assert a.mean().item() == pytest.approx(0, abs=0.05)
        assert a.std().item() == pytest.approx(1, abs=0.05)


# Distances that can be differentiated twice.


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
    for ours, theirs in zip(*found, strict=True):
        assert torch.equal(ours, theirs)


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
