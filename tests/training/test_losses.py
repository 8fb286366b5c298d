"""Losses: golden values (docs/methods.md, section 11, G4), naive twins, and the contract of the family."""

from __future__ import annotations

import itertools
import math
from types import ModuleType

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
from pydantic import ValidationError

from bgbias import plugins, seeds

GOLDEN = [
    ("contrastive", {"pos_margin": 0.2, "neg_margin": 0.9}, 0.438028),
    ("contrastive", {"pos_margin": -0.2, "neg_margin": 0.3841}, 0.832456),
    ("triplet", {"margin": 0.1}, 0.0),
    ("triplet", {"margin": 0.5}, 0.238028),
    ("multi_similarity", {"alpha": 2, "beta": 40, "base": 0.5}, 0.268971),
    ("arcface", {"margin": 20, "scale": 10, "lr": 1}, 0.249237),
    ("normalized_softmax", {"temperature": 0.1, "lr": 1}, 0.031775),
    ("cosface", {"margin": 0.35, "scale": 10, "lr": 1}, 0.426786),
    ("roth_arcface", {"margin": 0.5, "scale": 16}, 0.755547),
    ("roth_arcface", {"margin": 0.5, "scale": 16, "bug": True}, 0.00999),
    ("roth_arcface", {"margin": 0.0, "scale": 16}, 0.00999),
]


@pytest.mark.parametrize(("name", "settings", "value"), GOLDEN)
def test_golden_value(name: str, settings: dict[str, float], value: float) -> None:
    loss = build(name, settings)
    set_class_weights(loss, CLASS_WEIGHTS)
    assert loss(EMBEDDINGS, LABELS).item() == pytest.approx(value, abs=5e-7)


# Naive twins: docs/methods.md, section 1, written as loops over Python numbers.


def dot(a: list[float], b: list[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def cross_entropy(logits: list[float], own: int) -> float:
    return math.log(sum(math.exp(t - logits[own]) for t in logits))


def unit(vector: list[float]) -> list[float]:
    return [x / math.hypot(*vector) for x in vector]


def naive_contrastive(z: list[list[float]], y: list[int], pos_margin: float, neg_margin: float) -> float:
    pairs = list(itertools.permutations(range(len(y)), 2))
    positive = [math.dist(z[i], z[j]) - pos_margin for i, j in pairs if y[i] == y[j]]
    negative = [neg_margin - math.dist(z[i], z[j]) for i, j in pairs if y[i] != y[j]]
    return mean_of_non_zero(positive) + mean_of_non_zero(negative)


def naive_triplet(z: list[list[float]], y: list[int], margin: float) -> float:
    triplets = [(a, p, n) for a, p, n in itertools.permutations(range(len(y)), 3) if y[a] == y[p] != y[n]]
    return mean_of_non_zero([math.dist(z[a], z[p]) - math.dist(z[a], z[n]) + margin for a, p, n in triplets])


def naive_quadruplet(z: list[list[float]], y: list[int], margin: float) -> float:
    quadruplets = [
        (a, p, n, m)
        for a, p, n, m in itertools.permutations(range(len(y)), 4)
        if y[a] == y[p] and len({y[a], y[n], y[m]}) == 3
    ]
    between = [math.dist(z[a], z[p]) - math.dist(z[n], z[m]) + margin / 2 for a, p, n, m in quadruplets]
    return naive_triplet(z, y, margin) + mean_of_non_zero(between)


def naive_multi_similarity(
    z: list[list[float]], y: list[int], alpha: float, beta: float, base: float
) -> float:
    total = 0.0
    for i in range(len(y)):
        others = [j for j in range(len(y)) if j != i]
        near = sum(math.exp(-alpha * (dot(z[i], z[j]) - base)) for j in others if y[j] == y[i])
        far = sum(math.exp(beta * (dot(z[i], z[j]) - base)) for j in others if y[j] != y[i])
        total += math.log(1 + near) / alpha + math.log(1 + far) / beta
    return total / len(y)


def naive_arcface(
    z: list[list[float]], y: list[int], margin: float, scale: float, lr: float, weights: list[list[float]]
) -> float:
    m, total = math.radians(margin), 0.0
    for vector, own in zip(z, y, strict=True):
        cosines = [dot(vector, unit(w)) for w in weights]
        angle = math.acos(cosines[own])
        cosines[own] = math.cos(angle + m) if angle <= math.pi - m else math.cos(angle) - m * math.sin(m)
        total += cross_entropy([scale * c for c in cosines], own)
    return total / len(y)


def naive_cosface(
    z: list[list[float]], y: list[int], margin: float, scale: float, lr: float, weights: list[list[float]]
) -> float:
    total = 0.0
    for vector, own in zip(z, y, strict=True):
        cosines = [dot(vector, unit(w)) for w in weights]
        cosines[own] -= margin
        total += cross_entropy([scale * c for c in cosines], own)
    return total / len(y)


def naive_normalized_softmax(
    z: list[list[float]], y: list[int], temperature: float, lr: float, weights: list[list[float]]
) -> float:
    logits = [[dot(vector, unit(w)) / temperature for w in weights] for vector in z]
    return sum(cross_entropy(row, own) for row, own in zip(logits, y, strict=True)) / len(y)


def naive_mined(
    z: list[list[float]], y: list[int], alpha: float, beta: float, base: float, epsilon: float
) -> float:
    each = []
    for i in range(len(y)):
        positive = [dot(z[i], z[j]) for j in range(len(y)) if y[j] == y[i] and j != i]
        negative = [dot(z[i], z[j]) for j in range(len(y)) if y[j] != y[i]]
        hard_positive = [s for s in positive if negative and s - epsilon < max(negative)]
        hard_negative = [s for s in negative if positive and s + epsilon > min(positive)]
        if hard_positive and hard_negative:
            near = math.log(1 + sum(math.exp(-alpha * (s - base)) for s in hard_positive)) / alpha
            far = math.log(1 + sum(math.exp(beta * (s - base)) for s in hard_negative)) / beta
            each.append(near + far)
    return sum(each) / len(each) if each else 0.0


def naive_clamped_arcface(
    z: list[list[float]],
    y: list[int],
    margin: float,
    scale: float,
    lr: float,
    bug: bool,
    weights: list[list[float]],
) -> float:
    total = 0.0
    for vector, own in zip(z, y, strict=True):
        cosines = [max(dot(vector, unit(w)), 0.0) for w in weights]
        moved = math.cos(math.acos(cosines[own]) + margin) - cosines[own]
        logits = [scale * (c + moved * (bug or i == own)) for i, c in enumerate(cosines)]
        total += cross_entropy(logits, own)
    return total / len(y)


TWINS = {
    "contrastive": naive_contrastive,
    "triplet": naive_triplet,
    "quadruplet": naive_quadruplet,
    "multi_similarity": naive_multi_similarity,
    "arcface": naive_arcface,
    "normalized_softmax": naive_normalized_softmax,
    "cosface": naive_cosface,
    "roth_multi_similarity": naive_mined,
    "roth_arcface": naive_clamped_arcface,
}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", sorted(TWINS))
def test_agrees_with_naive_twin(name: str, seed: int) -> None:
    z, y = random_batch(seed)
    loss = build(name, CUB[name], n_classes=5, dim=6, seed=seed)
    extra = dict(zip(["weights"], [p.double().T.tolist() for p in loss.parameters()], strict=False))
    expected = TWINS[name](z.tolist(), y.tolist(), **CUB[name], **extra)
    assert loss(z, y).item() == pytest.approx(expected, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_a_margin_that_moves_every_logit_is_no_margin(seed: int) -> None:
    z, y = random_batch(seed)
    without, with_bug, meant = (
        build("roth_arcface", {"margin": margin, "bug": bug}, n_classes=5, dim=6)(z, y).item()
        for margin, bug in ((0.0, False), (0.5, True), (0.5, False))
    )
    assert with_bug == pytest.approx(without, rel=1e-9)
    assert meant > without + 0.1


@pytest.mark.parametrize("epsilon", [0.0, 0.05, 0.3])
def test_mining_leaves_out_easy_pairs(epsilon: float) -> None:
    """Close classes, of which some pairs are easy; as the naive twin has it, whatever is left out."""
    generator = seeds.torch_generator("close classes")
    centres = torch.nn.functional.normalize(
        torch.randn(4, 6, generator=generator, dtype=torch.float64), dim=1
    )
    y = torch.arange(4).repeat_interleave(4)
    spread = torch.randn(16, 6, generator=generator, dtype=torch.float64)
    z = torch.nn.functional.normalize(centres[y] + 0.3 * spread, dim=1)
    settings = {"alpha": 2.0, "beta": 40.0, "base": 0.5}
    found = build("roth_multi_similarity", {**settings, "epsilon": epsilon})(z, y).item()
    assert found == pytest.approx(naive_mined(z.tolist(), y.tolist(), epsilon=epsilon, **settings), rel=1e-9)
    everything = build("multi_similarity", settings)(z, y).item()
    assert found != pytest.approx(everything, rel=1e-3)


def test_arcface_goes_on_falling_beyond_180_degrees() -> None:
    # At 175 degrees from its own class, 20 more would turn back up: the second branch of the formula.
    angles = torch.tensor([150.0, 165.0, 175.0], dtype=torch.float64).deg2rad()
    z, y = torch.stack((angles.cos(), angles.sin()), 1), torch.tensor([0, 0, 0])
    loss = build("arcface", {"margin": 20, "scale": 10, "lr": 1})
    set_class_weights(loss, CLASS_WEIGHTS)
    each = [loss(z[i : i + 1], y[i : i + 1]).item() for i in range(3)]
    assert each == sorted(each)
    for i, value in enumerate(each):
        assert value == pytest.approx(
            naive_arcface(z[i : i + 1].tolist(), [0], 20, 10, 1, CLASS_WEIGHTS.tolist())
        )


# The contract of the family, for every file in losses/.

FAMILY = plugins.names("losses")


@pytest.fixture(params=FAMILY)
def family_member(request: pytest.FixtureRequest) -> tuple[str, ModuleType]:
    return request.param, plugins.load("losses", request.param)


def test_facts_are_stated(family_member: tuple[str, ModuleType]) -> None:
    name, module = family_member
    assert module.IMAGES_PER_CLASS in (1, 2, 4)
    euclidean = name in ("contrastive", "triplet", "quadruplet")
    assert ("l2" if euclidean else "cosine") == module.DISTANCE


def test_finite_and_differentiable(family_member: tuple[str, ModuleType]) -> None:
    name, _ = family_member
    z, y = random_batch(1, dim=128)
    z = z.float().requires_grad_()
    loss = build(name, CUB[name], n_classes=5, dim=128)
    value = loss(z, y)
    value.backward()
    assert value.shape == ()
    assert value.isfinite()
    assert z.grad is not None
    assert z.grad.isfinite().all()
    assert z.grad.abs().sum() > 0
    for parameter in loss.parameters():
        assert parameter.grad is not None
        assert parameter.grad.isfinite().all()


def test_satisfied_batch_still_gives_a_gradient(family_member: tuple[str, ModuleType]) -> None:
    """Identical positives, opposite negatives: nothing to mine, yet training goes on."""
    name, _ = family_member
    z = torch.tensor([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [-1.0, 0.0]], requires_grad=True)
    value = build(name, CUB[name])(z, LABELS)
    value.backward()
    assert value.isfinite()
    assert z.grad is not None
    assert z.grad.isfinite().all()


def test_unknown_option_is_refused(family_member: tuple[str, ModuleType]) -> None:
    name, module = family_member
    with pytest.raises(ValidationError, match="extra_forbidden"):
        module.Params(**CUB[name], margn=0.1)


def test_class_weights_come_from_the_generator_alone(family_member: tuple[str, ModuleType]) -> None:
    name, _ = family_member
    before = torch.get_rng_state()
    first, second, other = (list(build(name, CUB[name], 50, 128, seed).parameters()) for seed in (7, 7, 8))
    assert torch.equal(before, torch.get_rng_state())
    for a, b, c in zip(first, second, other, strict=True):
        assert a.shape == (128, 50)
        assert torch.equal(a, b)
        assert not torch.equal(a, c)
        assert a.mean().item() == pytest.approx(0, abs=0.05)
        assert a.std().item() == pytest.approx(1, abs=0.05)


def test_mixed_precision_does_not_reach_the_loss(family_member: tuple[str, ModuleType]) -> None:
    name, _ = family_member
    z, y = random_batch(2, dim=128)
    z = z.float()
    loss = build(name, CUB[name], n_classes=5, dim=128)
    plain = loss(z, y)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(loss(z, y), plain)
        loss(z.bfloat16(), y)
    assert all(p.dtype == torch.float32 for p in loss.parameters())
