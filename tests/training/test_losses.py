"""Losses, alone and with further negatives: naive twins, and what holds for all of them (docs/methods.md, sections 1 and 6)."""

import math
from typing import Any

import pytest
import torch
from fitting import CUB
from pytorch_metric_learning.distances import LpDistance
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize, one_hot

from bgbias import plugins, seeds
from bgbias.training.losses._parts import EuclideanDistance
from bgbias.training.repulsions import Further

FAMILY, REPELLED = plugins.names("losses"), plugins.names("repulsions")

Settings = dict[str, Any]


def build(name: str, settings: Settings, n_classes: int = 3, dim: int = 2, seed: int = 0) -> Any:
    module = plugins.load("losses", name)
    return module.build(module.Params(**settings), n_classes, dim, seeds.torch_generator("test", seed))


def random_batch(seed: int, dim: int = 6, spread: float = 0.7) -> tuple[Tensor, Tensor]:
    """Sixteen photos of five classes, of which some pairs are easy."""
    drawn = seeds.torch_generator("test batch", seed)
    labels = torch.randint(5, (16,), generator=drawn)
    centres, noise = (torch.randn(n, dim, generator=drawn, dtype=torch.float64) for n in (5, 16))
    return normalize(centres[labels] + spread * noise, dim=1), labels


def mean_of_non_zero(values: Tensor) -> Tensor:
    return values.relu().sum() / (values > 0).sum().clamp(min=1)


def naive_pairs(name: str, s: Settings, z: Tensor, y: Tensor, more: Further) -> Tensor:
    same = y[:, None] == y
    pairs = same & ~torch.eye(len(y), dtype=torch.bool)
    apart, beyond = ((z[:, None] - others).norm(dim=2) for others in (z, more.embeddings))
    if name == "contrastive":
        near, far = apart[pairs] - s["pos_margin"], s["neg_margin"] - apart[~same]
        further = mean_of_non_zero(s["neg_margin"] - beyond[more.counts])
        return mean_of_non_zero(near) + mean_of_non_zero(far) + more.kappa * further

    def excess(negatives: Tensor, counts: Tensor) -> Tensor:
        """Of each positive pair and each negative of its anchor."""
        gaps = apart[:, :, None] - negatives[:, None] + s["margin"]
        return mean_of_non_zero(gaps[pairs[:, :, None] & counts[:, None]])

    total = excess(apart, ~same) + more.kappa * excess(beyond, more.counts)
    if name == "quadruplet":
        gaps = apart[:, :, None, None] - apart + s["margin"] / 2
        of_three_classes = ~same[:, None, :, None] & ~same[:, None, None] & ~same
        total = total + mean_of_non_zero(gaps[pairs[:, :, None, None] & of_three_classes])
    return total


def naive_sums(name: str, s: Settings, z: Tensor, y: Tensor, more: Further) -> Tensor:
    each = []
    for i, anchor in enumerate(z):
        cosines, is_same, is_other = z @ anchor, y == y[i], torch.arange(len(y)) != i
        near, far = cosines[is_same & is_other], cosines[~is_same]
        if name == "roth_multi_similarity" and len(near) and len(far):
            hard = near[near - s["epsilon"] < far.max()]
            near, far = hard, far[far + s["epsilon"] > near.min()]
        if name == "roth_multi_similarity" and not (len(near) and len(far)):
            continue
        further = more.alpha * (more.embeddings[i] @ anchor)[more.counts[i]]
        pull = (-s["alpha"] * (near - s["base"])).exp().sum()
        push, pushed = ((s["beta"] * (cosine - s["base"])).exp().sum() for cosine in (far, further))
        each.append(pull.log1p() / s["alpha"] + (push + more.kappa * pushed).log1p() / s["beta"])
    return torch.stack(each).mean()


def naive_softmax(name: str, s: Settings, z: Tensor, y: Tensor, more: Further, weights: Tensor) -> Tensor:
    scale = s["scale"] if "scale" in s else 1 / s["temperature"]
    cosines, own = z @ normalize(weights, dim=0), one_hot(y, weights.shape[1]).bool()
    if name == "cosface":
        cosines = cosines - s["margin"] * own.double()
    if name == "arcface":
        angle, margin = cosines.acos(), math.radians(s["margin"])
        beyond = cosines - margin * math.sin(margin)
        moved = torch.where(angle > math.pi - margin, beyond, (angle + margin).cos())
        cosines = torch.where(own, moved, cosines)
    if name == "roth_arcface":
        cosines = cosines.clamp(min=0)
        by = (cosines[own].acos() + s["margin"]).cos() - cosines[own]
        cosines = cosines + by[:, None] * (own | s["bug"])
    further = more.alpha * (more.embeddings @ z[:, :, None])[:, :, 0] + math.log(more.kappa) / scale
    repelled = further.masked_fill(~more.counts, -math.inf)
    return cross_entropy(scale * torch.cat((cosines, repelled), 1), y)


def naive(name: str, settings: Settings, loss: nn.Module, z: Tensor, y: Tensor, *further: Further) -> float:
    (more,) = further or [Further(z[:, None][:, :0], torch.zeros(len(z), 0, dtype=torch.bool))]
    if weights := list(loss.parameters()):
        return naive_softmax(name, settings, z, y, more, weights[0].double()).item()
    return (naive_sums if "similarity" in name else naive_pairs)(name, settings, z, y, more).item()


# Gentle ones, with which every pair and negative has a say; of arcface, some angles go beyond 180 degrees.
MILD = CUB | {
    "contrastive": {"pos_margin": 0.2, "neg_margin": 1.4},
    "triplet": {"margin": 0.5},
    "multi_similarity": {"alpha": 2, "beta": 10, "base": 0.5},
    "arcface": {"margin": 80, "scale": 8, "lr": 1},
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
def test_further_negatives_agree_with_the_twin(name: str, kappa: float, alpha: float, width: int) -> None:
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


@pytest.mark.parametrize("name", FAMILY)
def test_finite_and_differentiable_and_out_of_mixed_precisions_reach(name: str) -> None:
    z, y = random_batch(1, dim=128, spread=5.0)
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
    # Identical positives, opposite negatives: nothing to mine, yet training goes on.
    satisfied = torch.tensor([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [-1.0, 0.0]], requires_grad=True)
    value = build(name, CUB[name])(satisfied, torch.tensor([0, 0, 1, 1]))
    (gradient,) = torch.autograd.grad(value, satisfied)
    assert value.isfinite()
    assert gradient.isfinite().all()


@pytest.mark.parametrize("name", FAMILY)
def test_class_weights_come_from_the_generator_alone(name: str) -> None:
    before = torch.get_rng_state()
    first, second, other = (list(build(name, CUB[name], 50, 128, seed).parameters()) for seed in (7, 7, 8))
    assert torch.equal(before, torch.get_rng_state())
    for a, b, c in zip(first, second, other, strict=True):
        assert torch.equal(a, b)
        assert not torch.equal(a, c)


@pytest.mark.parametrize("count", [8, 32])  # torch computes them in two ways
def test_distances_and_their_gradients_are_those_of_the_library_bit_for_bit(count: int) -> None:
    """And finite to the second derivative where two are the same."""
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
    same = torch.ones(count, 16, requires_grad=True)
    (first,) = torch.autograd.grad(EuclideanDistance()(same).sum(), same, create_graph=True)
    (second,) = torch.autograd.grad(first.square().sum(), same)
    assert first.isfinite().all()
    assert second.isfinite().all()
