"""The parts of DCML: golden values of docs/methods.md, section 11 (G7), and twins by loops and automatic differentiation."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bgbias import seeds
from bgbias.models.necks._attention_net import AttentionNet, mean_attention, mean_weights
from bgbias.training.methods import _invariance as invariance

LOGITS = torch.tensor([[2.0, 0, -1], [1, 1, 0]], dtype=torch.float64)
LABELS = torch.tensor([0, 1])
SEEDS = range(4)


def random(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, generator=seeds.torch_generator("test", seed, *shape), dtype=torch.float64)


def random_labels(seed: int, size: int = 9, classes: int = 4) -> Tensor:
    return torch.randint(classes, (size,), generator=seeds.torch_generator("test labels", seed))


def random_weights(seed: int, size: int = 9) -> Tensor:
    return random(size, seed=seed).softmax(0)


def nets(count: int, channels: int, positions: int, seed: int = 0) -> list[AttentionNet]:
    return [
        AttentionNet(channels, positions, seeds.torch_generator("nets", seed, j)).double()
        for j in range(count)
    ]


def identity_net(channels: int, positions: int) -> AttentionNet:
    """A net whose matrices are identities where they are square; its channel bottleneck is as wide as its input."""
    net = AttentionNet(channels, positions).double()
    net.channel[0] = nn.Linear(channels, channels, bias=False)
    net.channel[2] = nn.Linear(channels, channels, bias=False)
    for weights in net.parameters():
        weights.data = torch.eye(weights.shape[0], dtype=torch.float64)
    return net


# Golden values.

FEATURES = torch.tensor([[[[1.0, 3]], [[3, 5]]]], dtype=torch.float64)
ATTENDED = torch.tensor([[[[0.767529, 2.567189]], [[2.583213, 4.800104]]]], dtype=torch.float64)


def test_golden_environment_loss_and_irm_penalty() -> None:
    uneven, even = torch.tensor([[0.3, 0.7], [0.5, 0.5]], dtype=torch.float64)
    assert invariance.cross_entropy(LOGITS, LABELS, uneven).item() == pytest.approx(0.65435, abs=5e-7)
    gradient = uneven @ invariance.proxy_gradients(LOGITS, LABELS)
    assert gradient.tolist() == pytest.approx([0.2019, -0.404377, -0.012603], abs=5e-7)
    assert invariance.irm_penalty(LOGITS, LABELS, uneven).item() == pytest.approx(0.204443, abs=5e-7)
    assert invariance.irm_penalty(LOGITS, LABELS, even).item() == pytest.approx(0.08689, abs=5e-7)


def test_golden_task_terms() -> None:
    embeddings = torch.tensor([[0.0, 0], [2, 0], [1, 3], [5, 5]], dtype=torch.float64)
    labels, weights = torch.tensor([0, 0, 0, 1]), torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64)
    assert invariance.spread_around_class_means(embeddings, labels, weights).item() == pytest.approx(1.8)
    ones = torch.ones_like(weights)
    assert invariance.spread_around_class_means(embeddings, labels, ones).item() == pytest.approx(8)
    assert invariance.spread_between_pairs(embeddings, labels).item() == pytest.approx(24)


def test_golden_distances_of_nets() -> None:
    """Two nets whose only matrix is that of the golden case."""
    one, other = (nn.Linear(2, 2, bias=False).double() for _ in range(2))
    one.weight.data = torch.tensor([[1.0, 2], [3, 4]], dtype=torch.float64)
    other.weight.data = torch.tensor([[1.0, 0], [3, 2]], dtype=torch.float64)
    assert invariance.relative_distance([one, other]).item() == pytest.approx(0.037778, abs=5e-7)  # type: ignore[list-item]
    assert invariance.distance([one, other]).item() == pytest.approx(4)  # type: ignore[list-item]


def test_distances_of_random_nets_are_those_of_the_literature() -> None:
    """BN-Inception's map, two nets: 1.38e-4 as the code has it, against 545 as the paper writes it."""
    pair = nets(2, 1024, 49)
    assert invariance.relative_distance(pair).item() == pytest.approx(0.000138081698, rel=0.05)
    assert invariance.distance(pair).item() == pytest.approx(544.67, rel=0.02)


def test_golden_attention() -> None:
    net = identity_net(2, 2)
    assert torch.allclose(net(FEATURES), ATTENDED, rtol=0, atol=5e-7)
    where = net.spatial(FEATURES.mean(1).flatten(1))
    assert where.flatten().tolist() == pytest.approx([0.880797, 0.982014], abs=5e-7)


def test_golden_gradients_by_dummy_attention() -> None:
    """With the pooled map as logits."""
    attended = identity_net(2, 2)(FEATURES).detach().requires_grad_()
    losses = F.cross_entropy(attended.mean((2, 3)), torch.tensor([0]), reduction="none")
    channel, spatial = invariance.attention_gradients(attended, losses)
    assert (channel.shape, spatial.shape) == ((1, 2), (1, 2))
    assert channel.square().sum().item() == pytest.approx(12.802885, abs=1e-5)
    assert spatial.square().sum().item() == pytest.approx(1.615655, abs=1e-5)


# Naive twins.


@pytest.mark.parametrize("seed", SEEDS)
def test_irm_penalty_agrees_with_a_gradient_by_dummy_ones(seed: int) -> None:
    """And so does what it teaches the network: its own gradient by logits and by weights."""
    logits = (4 * random(9, 4, seed=seed)).requires_grad_()
    labels, weights = random_labels(seed), random_weights(seed).requires_grad_()
    dummy = torch.ones(1, 4, dtype=torch.float64, requires_grad=True)
    losses = F.cross_entropy(logits * dummy, labels, reduction="none")
    (gradient,) = torch.autograd.grad((weights * losses).sum(), dummy, create_graph=True)
    slow, fast = gradient.square().sum(), invariance.irm_penalty(logits, labels, weights)
    assert fast.item() == pytest.approx(slow.item(), rel=1e-12)
    for variable in (logits, weights):
        (a,) = torch.autograd.grad(slow, variable, retain_graph=True)
        (b,) = torch.autograd.grad(fast, variable, retain_graph=True)
        assert a.abs().sum() > 0
        assert torch.allclose(a, b, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("seed", SEEDS)
def test_irm_penalty_agrees_with_loops(seed: int) -> None:
    logits, labels, weights = random(9, 4, seed=seed), random_labels(seed), random_weights(seed)
    total = [0.0] * 4
    for row, own, weight in zip(logits.tolist(), labels.tolist(), weights.tolist(), strict=True):
        whole = sum(math.exp(x) for x in row)
        for c, x in enumerate(row):
            total[c] += weight * (math.exp(x) / whole - (c == own)) * x
    expected = sum(x * x for x in total)
    assert invariance.irm_penalty(logits, labels, weights).item() == pytest.approx(expected)


@pytest.mark.parametrize("seed", SEEDS)
def test_attention_gradients_agree_with_those_of_dummy_ones(seed: int) -> None:
    """Weighted over the batch, through a head that pools, reduces and normalises."""
    attended, labels, weights = random(9, 3, 2, 2, seed=seed), random_labels(seed), random_weights(seed)
    head, proxies = random(3, 5, seed=seed), random(5, 4, seed=seed)

    def losses(seen: Tensor) -> Tensor:
        return F.cross_entropy(
            F.normalize(seen.mean((2, 3)) @ head, dim=1) @ proxies, labels, reduction="none"
        )

    channel = torch.ones(1, 3, 1, 1, dtype=torch.float64, requires_grad=True)
    spatial = torch.ones(1, 1, 2, 2, dtype=torch.float64, requires_grad=True)
    environment = (weights * losses(attended * channel * spatial)).sum()
    expected = torch.autograd.grad(environment, (channel, spatial))
    free = attended.clone().requires_grad_()
    found = invariance.attention_gradients(free, losses(free))
    for one, other in zip(found, expected, strict=True):
        assert torch.allclose(weights @ one, other.flatten(), rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("seed", SEEDS)
def test_task_terms_agree_with_loops_over_pairs(seed: int) -> None:
    rows, labels, weights = random(9, 3, seed=seed), random_labels(seed), random_weights(seed)
    y, points = labels.tolist(), rows.tolist()
    pairs = sum(
        math.dist(points[i], points[k]) ** 2 for i in range(9) for k in range(i + 1, 9) if y[i] == y[k]
    )
    assert invariance.spread_between_pairs(rows, labels).item() == pytest.approx(pairs)
    around = 0.0
    for i in range(9):
        members = [points[k] for k in range(9) if y[k] == y[i]]
        mean = [sum(column) / len(members) for column in zip(*members, strict=True)]
        around += weights[i].item() * math.dist(points[i], mean) ** 2
    assert invariance.spread_around_class_means(rows, labels, weights).item() == pytest.approx(around)


def test_class_means_take_no_gradient_in_the_code_and_do_in_the_paper() -> None:
    """Gradients at the two ends of a pair: weight * 2 * half the difference, against 2 * the difference."""
    rows = torch.tensor([[0.0], [4.0]], dtype=torch.float64, requires_grad=True)
    labels, weights = torch.tensor([0, 0]), torch.tensor([0.25, 0.75], dtype=torch.float64)
    (code,) = torch.autograd.grad(invariance.spread_around_class_means(rows, labels, weights), rows)
    assert code.flatten().tolist() == [-1.0, 3.0]
    (paper,) = torch.autograd.grad(invariance.spread_between_pairs(rows, labels), rows)
    assert paper.flatten().tolist() == [-8.0, 8.0]


@pytest.mark.parametrize("seed", SEEDS)
def test_attention_agrees_with_loops(seed: int) -> None:
    net = nets(1, 4, 6, seed)[0]
    features = random(2, 4, 2, 3, seed=seed).abs()
    w1, w2, w3, w4 = (w.tolist() for w in net.parameters())

    def through(vector: list[float], first: list[list[float]], second: list[list[float]]) -> list[float]:
        hidden = [max(0.0, sum(w * x for w, x in zip(row, vector, strict=True))) for row in first]
        return [1 / (1 + math.exp(-sum(w * x for w, x in zip(row, hidden, strict=True)))) for row in second]

    for photo, found in zip(features.flatten(2).tolist(), net(features).flatten(2).tolist(), strict=True):
        where = through([sum(column) / 4 for column in zip(*photo, strict=True)], w1, w2)
        seen = [[x * s for x, s in zip(channel, where, strict=True)] for channel in photo]
        what = through([sum(channel) / 6 for channel in seen], w3, w4)
        for channel, factor, row in zip(seen, what, found, strict=True):
            assert row == pytest.approx([x * factor for x in channel])


@pytest.mark.parametrize("seed", SEEDS)
def test_distances_agree_with_loops(seed: int) -> None:
    some = nets(3, 4, 3, seed)
    matrices = list(zip(*([w.flatten().tolist() for w in net.parameters()] for net in some), strict=True))
    squares, ratios = 0.0, []
    for of_nets in matrices:
        mean = [sum(column) / 3 for column in zip(*of_nets, strict=True)]
        for entries in of_nets:
            squares += math.dist(entries, mean) ** 2
            ratios.append((math.dist(entries, mean) / sum(abs(x) for x in entries)) ** 2)
    assert invariance.distance(some).item() == pytest.approx(squares)
    assert invariance.relative_distance(some).item() == pytest.approx(sum(ratios) / len(ratios))


def test_mean_attention_is_that_of_one_net_with_mean_weights() -> None:
    some, features = nets(3, 4, 6), random(2, 4, 2, 3, seed=0)
    one = AttentionNet(4, 6).double()
    one.load_state_dict(mean_weights(some))
    found = mean_attention(some, features)
    assert torch.equal(found, one(features))
    found.sum().backward()
    assert all(w.grad is not None and w.grad.abs().sum() > 0 for net in some for w in net.parameters())


def test_equal_nets_are_at_no_distance_and_give_no_gradient() -> None:
    """Where training starts from one net for all environments."""
    pair = [*nets(1, 4, 6), *nets(1, 4, 6)]
    for penalty in (invariance.distance, invariance.relative_distance):
        value = penalty(pair)
        assert value.item() == 0
        assert all(g.abs().sum() == 0 for g in torch.autograd.grad(value, list(pair[0].parameters())))


def test_attention_net_draws_from_its_generator_alone() -> None:
    before = torch.get_rng_state()
    one, same, other = nets(1, 4, 6)[0], nets(1, 4, 6)[0], nets(1, 4, 6, seed=1)[0]
    assert torch.equal(before, torch.get_rng_state())
    for a, b, c in zip(one.parameters(), same.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)
        assert not torch.equal(a, c)


def test_mixed_precision_does_not_reach_the_attention() -> None:
    net, features = AttentionNet(4, 6), random(2, 4, 2, 3, seed=0).float()
    expected = net(features)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(net(features), expected)
        assert net(features.bfloat16()).dtype == torch.float32
