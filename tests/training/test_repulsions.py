"""Further negatives of losses: golden values (docs/methods.md, section 11, G8), naive twins over Python numbers."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from known_losses import (
    CLASS_WEIGHTS,
    CUB,
    EMBEDDINGS,
    LABELS,
    build,
    mean_of_non_zero,
    random_batch,
    set_class_weights,
)
from torch import Tensor
from torch.nn.functional import normalize

from bgbias import plugins
from bgbias.training.repulsions import Further

NAMES = plugins.names("repulsions")
NEGATIVES = normalize(torch.tensor([[1, 0.2], [0.5, 0.5], [0.2, 1], [-1, 0]], dtype=torch.float64), dim=1)[
    :, None
]
ALL = torch.ones(4, 1, dtype=torch.bool)
SOFTMAX, ARC = {"temperature": 0.1, "lr": 1}, {"margin": 20, "scale": 10, "lr": 1}


@pytest.mark.parametrize(
    ("name", "settings", "alpha", "value"),
    [
        ("contrastive", {"pos_margin": 0.2, "neg_margin": 0.9}, 1, 0.438028 + 0.542411),
        ("triplet", {"margin": 0.1}, 1, 0.553813),
        ("multi_similarity", {"alpha": 2, "beta": 40, "base": 0.5}, 1, 0.606635),
        ("normalized_softmax", SOFTMAX, 1, 0.846244),
        ("normalized_softmax", SOFTMAX, 2, 8.760128),
        ("arcface", ARC, 1, 1.824641),
    ],
)
def test_golden_value(name: str, settings: dict[str, float], alpha: float, value: float) -> None:
    base = build(name, settings)
    set_class_weights(base, CLASS_WEIGHTS)
    further = Further(NEGATIVES, ALL, alpha=alpha)
    found = plugins.load("repulsions", name).loss(base, EMBEDDINGS, LABELS, further)
    assert found.item() == pytest.approx(value, abs=1.1e-6)


# Naive twins: docs/methods.md, section 6, written as loops over Python numbers.


def naive(name: str, base: torch.nn.Module, z: Tensor, labels: Tensor, further: Further) -> float:
    points, classes, counts = z.tolist(), labels.tolist(), further.counts.tolist()
    kappa, alpha, own = further.kappa, further.alpha, base.loss
    others = [
        [n for n, used in zip(row, use, strict=True) if used]
        for row, use in zip(further.embeddings.tolist(), counts, strict=True)
    ]
    plain = base(z, labels).item()
    if name == "contrastive":
        return plain + kappa * mean_of_non_zero(
            [own.neg_margin - math.dist(a, n) for a, row in zip(points, others, strict=True) for n in row]
        )
    if name == "triplet":
        pairs = [(i, p) for i, p in itertools.permutations(range(len(points)), 2) if classes[i] == classes[p]]
        excess = [
            math.dist(points[i], points[p]) - math.dist(points[i], n) + own.margin
            for i, p in pairs
            for n in others[i]
        ]
        return plain + kappa * mean_of_non_zero(excess)
    if name == "multi_similarity":
        total = 0.0
        for i, a in enumerate(points):
            near = [sum(map(math.prod, zip(a, b, strict=True))) for b in points]
            pull = sum(
                math.exp(-own.alpha * (s - own.base))
                for j, s in enumerate(near)
                if j != i and classes[j] == classes[i]
            )
            push = sum(
                math.exp(own.beta * (s - own.base)) for j, s in enumerate(near) if classes[j] != classes[i]
            )
            for n in others[i]:
                push += kappa * math.exp(
                    own.beta * (alpha * sum(map(math.prod, zip(a, n, strict=True))) - own.base)
                )
            total += math.log1p(pull) / own.alpha + math.log1p(push) / own.beta
        return total / len(points)
    scale = 1 / own.temperature if name == "normalized_softmax" else own.scale
    weights = normalize(own.W.detach(), dim=0).T.tolist()
    total = 0.0
    for a, label, row in zip(points, classes, others, strict=True):
        cosines = [sum(map(math.prod, zip(a, w, strict=True))) for w in weights]
        if name == "cosface":
            cosines[label] -= own.margin
        if name == "arcface":
            cosines[label] = math.cos(math.acos(cosines[label]) + own.margin)
        logits = [scale * c for c in cosines]
        logits += [scale * alpha * sum(map(math.prod, zip(a, n, strict=True))) + math.log(kappa) for n in row]
        total += math.log(sum(math.exp(x - logits[label]) for x in logits))
    return total / len(points)


# Gentle ones, with which every pair and negative has a say.
MILD = CUB | {
    "contrastive": {"pos_margin": 0.2, "neg_margin": 1.4},
    "triplet": {"margin": 0.5},
    "multi_similarity": {"alpha": 2, "beta": 10, "base": 0.5},
    "arcface": {"margin": 5, "scale": 8, "lr": 1},
    "cosface": {"margin": 0.2, "scale": 8, "lr": 1},
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("kappa", "alpha", "width"), [(1.0, 1.0, 1), (0.3, 1.0, 16), (2.5, 0.5, 16)])
def test_naive_twin(name: str, kappa: float, alpha: float, width: int) -> None:
    z, labels = random_batch(3)
    generator = torch.Generator().manual_seed(width)
    pictures = normalize(torch.randn(16, width, 6, generator=generator, dtype=torch.float64), dim=2)
    counts = torch.rand(16, width, generator=generator) < 0.7
    base = build(name, MILD[name], n_classes=5, dim=6).double()
    further = Further(pictures, counts, kappa, alpha)
    found = plugins.load("repulsions", name).loss(base, z, labels, further)
    twin = naive(name, base, z, labels, further)
    assert found.item() == pytest.approx(twin, rel=1e-9)
    assert abs(twin - base(z, labels).item()) > 1e-3  # they do say something


@pytest.mark.parametrize("name", NAMES)
def test_negatives_that_do_not_count_change_nothing(name: str) -> None:
    z, labels = random_batch(4)
    z.requires_grad_()
    base = build(name, MILD[name], n_classes=5, dim=6).double()
    none = Further(z.detach()[:, None], torch.zeros(16, 1, dtype=torch.bool))
    found = plugins.load("repulsions", name).loss(base, z, labels, none)
    plain = base(z, labels)
    assert found.item() == pytest.approx(plain.item(), rel=1e-12)
    (slope,), (usual,) = torch.autograd.grad(found, z), torch.autograd.grad(plain, z)
    torch.testing.assert_close(slope, usual)


@pytest.mark.parametrize("name", NAMES)
def test_a_negative_that_comes_nearer_costs_more(name: str) -> None:
    z, labels = random_batch(5)
    pictures = normalize(z + 0.3 * random_batch(6)[0], dim=1)[:, None].requires_grad_()
    base = build(name, MILD[name], n_classes=5, dim=6).double()
    further = Further(pictures, torch.ones(16, 1, dtype=torch.bool))
    (slope,) = torch.autograd.grad(plugins.load("repulsions", name).loss(base, z, labels, further), pictures)
    rise = (slope * (z[:, None] - pictures)).sum((1, 2))
    assert (rise >= 0).all()
    assert (rise > 1e-4).any()
