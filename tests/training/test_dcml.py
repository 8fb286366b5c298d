"""DCML's loss: golden values (docs/methods.md, section 11, G7), and a slow twin of it and its gradients by loops and machine
differentiation (section 5).
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from dcml_models import KINDS, built, class_weights, logits_by_hand, one_batch, penalty_by_dummy, unlike
from fitting import fit, loss, method
from torch import Tensor, nn

from bgbias import seeds
from bgbias.models.necks._attention_net import AttentionNet
from bgbias.training import loop
from bgbias.training.losses._terms import class_logits
from bgbias.training.methods import Batch
from bgbias.training.methods import _invariance as invariance
from bgbias.training.settings import Train

pytestmark = pytest.mark.usefixtures("small_plugins")

LOGITS = torch.tensor([[2.0, 0, -1], [1, 1, 0]], dtype=torch.float64)
LABELS = torch.tensor([0, 1])
FEATURES = torch.tensor([[[[1.0, 3]], [[3, 5]]]], dtype=torch.float64)


def nets(channels: int, positions: int, *numbers: int) -> list[AttentionNet]:
    return [AttentionNet(channels, positions, seeds.torch_generator("nets", j)).double() for j in numbers]


def identity_net(channels: int, positions: int) -> AttentionNet:
    """A net whose matrices are identities where they are square; its channel bottleneck is as wide as its input."""
    net = AttentionNet(channels, positions).double()
    net.channel[0] = nn.Linear(channels, channels, bias=False)
    net.channel[2] = nn.Linear(channels, channels, bias=False)
    for weights in net.parameters():
        weights.data = torch.eye(weights.shape[0], dtype=torch.float64)
    return net


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
    pair = nets(1024, 49, 0, 1)
    assert invariance.relative_distance(pair).item() == pytest.approx(0.000138081698, rel=0.05)
    assert invariance.distance(pair).item() == pytest.approx(544.67, rel=0.02)


def test_golden_attention() -> None:
    net = identity_net(2, 2)
    attended = torch.tensor([[[[0.767529, 2.567189]], [[2.583213, 4.800104]]]], dtype=torch.float64)
    assert torch.allclose(net(FEATURES), attended, rtol=0, atol=5e-7)
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


def test_equal_nets_are_at_no_distance_and_give_no_gradient() -> None:
    """Where training starts from one net for all environments."""
    pair = nets(4, 6, 0, 0)
    for penalty in (invariance.distance, invariance.relative_distance):
        value = penalty(pair)
        assert value.item() == 0
        assert all(g.abs().sum() == 0 for g in torch.autograd.grad(value, list(pair[0].parameters())))


# The slow twin.


def attended_by_hand(matrices: list[Tensor], features: Tensor) -> Tensor:
    w1, w2, w3, w4 = matrices
    where = ((features.mean(1).flatten(1) @ w1.T).relu() @ w2.T).sigmoid()
    seen = features * where.view(len(features), 1, *features.shape[2:])
    return seen * ((seen.mean((2, 3)) @ w3.T).relu() @ w4.T).sigmoid()[:, :, None, None]


def expected_loss(method: Any, batch: Batch, kind: str) -> Tensor:
    model, chosen, y = method.model, method.params, batch.labels
    features = model.features(method.photos(batch))
    shared = method.environments.logits[batch.index].softmax(1)
    own_weights, environment_weights = class_weights(method)[0], class_weights(method)[-1]
    nets = [list(net.parameters()) for net in method.nets]
    means = [sum(matrices) / len(nets) for matrices in zip(*nets, strict=True)]
    terms: list[Tensor] = []
    for j in range(chosen.environments):
        weights = shared[:, j] / sum(shared[i, j] for i in range(len(y)))
        attended = attended_by_hand(nets[j], features) if nets else features
        projected = attended.mean((2, 3)) @ model.embedder.weight.T + model.embedder.bias
        logits = logits_by_hand(environment_weights, projected, y)
        task = torch.zeros((), dtype=torch.float64)
        for i, k in itertools.combinations(range(len(y)), 2):
            if kind == "dcml_paper" and y[i] == y[k]:
                task = task + (attended[i] - attended[k]).square().sum()
        for i in range(len(y) if kind == "dcml_code" else 0):
            task = task + weights[i] * (projected[i] - projected[y == y[i]].mean(0).detach()).square().sum()
        terms.append(
            (weights * F.cross_entropy(logits, y, reduction="none")).sum()
            + chosen.alpha * penalty_by_dummy(logits, y, weights)
            + chosen.gamma * task
        )
    total = sum(terms) / (len(terms) if kind == "dcml_code" else 1)
    beside = [(w, mean) for net in nets for w, mean in zip(net, means, strict=True)]
    if nets and kind == "dcml_code":
        # The root has no slope at 0, where one net is its own mean.
        gaps = [((w - mean).square().sum() + 1e-30).sqrt() / w.abs().sum() for w, mean in beside]
        total = total + chosen.beta * sum(gap**2 for gap in gaps) / len(gaps)
        features = attended_by_hand(list(method._empirical_net.parameters()), features)
    elif nets:
        total = total + chosen.beta * sum((w - mean).square().sum() for w, mean in beside)
        features = attended_by_hand(means, features)
    projected = features.mean((2, 3)) @ model.embedder.weight.T + model.embedder.bias
    return total + F.cross_entropy(logits_by_hand(own_weights, projected, y), y)


ABLATIONS: dict[str, dict[str, Any]] = {
    "DCML": {},
    "w/o inv emb": {"alpha": 0},
    "w/o inv at": {"beta": 0},
    "w/o inv task": {"gamma": 0},
    "w random": {"weights": "random"},
    "w/o envs": {"environments": 1, "alpha": 0},
    "w/o at": {"attention": False},
    "k = 5": {"environments": 5},
    "heavy penalties": {"alpha": 3, "beta": 50, "gamma": 7},
}


@pytest.mark.parametrize("options", ABLATIONS.values(), ids=list(ABLATIONS))
@pytest.mark.parametrize("kind", KINDS)
def test_loss_agrees_with_its_slow_twin(kind: str, options: dict[str, Any]) -> None:
    """And so do the gradients of everything that is trained."""
    method, batch = unlike(built(kind, **options)), one_batch()
    found, expected = method.loss(batch)["loss"], expected_loss(method, batch, kind)
    assert found.item() == pytest.approx(expected.item(), rel=1e-10)
    named = [
        (name, p) for m in method.modules().values() for name, p in m.named_parameters() if "neck" not in name
    ]
    trained = [p for _, p in named]
    slopes = torch.autograd.grad(found, trained), torch.autograd.grad(expected, trained)
    for (name, _), a, b in zip(named, *slopes, strict=True):
        assert torch.allclose(a, b, rtol=1e-8, atol=1e-12), name
        assert a.abs().sum() > 0, name


def test_environments_share_class_weights_that_are_the_empirical_branchs_in_the_paper_alone() -> None:
    for kind, count in zip(KINDS, (2, 1), strict=True):
        method = built(kind)
        weights = class_weights(method)
        assert len(weights) == count
        method.loss(one_batch())["loss"].backward()
        assert all(w.grad is not None and w.grad.abs().sum() > 0 for w in weights)
        groups = loop.make_optimizer(method, Train(lr=1e-3)).param_groups
        (of_loss,) = (g for g in groups if any(p is weights[0] for p in g["params"]))
        assert len(of_loss["params"]) == count
        assert of_loss["lr"] == 0.1


@pytest.mark.parametrize("kind", KINDS)
def test_mixed_precision_does_not_reach_beyond_the_trunk(kind: str) -> None:
    method, batch = unlike(built(kind)), one_batch()
    for module in method.modules().values():
        module.float()
    features = method.model.features(method.photos(batch).float()).bfloat16()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(method.model, "features", lambda photos: features)
        expected = method.loss(batch)
        with torch.autocast("cpu", torch.bfloat16):
            found = method.loss(batch)
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    assert all(value.dtype == torch.float32 for value in found.values())


@pytest.mark.parametrize("kind", KINDS)
def test_nets_start_alike_unless_told_otherwise(kind: str) -> None:
    """Where they are alike, the net of test time is one of them."""
    for is_alike in (True, False):
        made = built(kind, environments=3, same_start=is_alike)
        first, *others = (dict(net.named_parameters()) for net in made.nets)
        assert all(torch.equal(net[name], first[name]) == is_alike for net in others for name in first)
        neck = made.model.neck.state_dict()
        assert all(torch.allclose(neck[name], first[name], rtol=1e-5) == is_alike for name in first)


@pytest.mark.parametrize("kind", KINDS)
def test_the_model_attends_with_the_mean_of_the_nets(kind: str, tmp_path: Path) -> None:
    """As of the end of the epoch, before it is validated."""
    trained = fit(method(kind, "cosface", attention_lr=0.01, weights="random"), tmp_path, "mine")
    for name in ("spatial.0.weight", "channel.2.weight"):
        of_nets = [trained[f"dcml.nets.{j}.{name}"] for j in (0, 1)]
        assert not torch.equal(*of_nets)
        assert torch.equal(trained[f"model.neck.{name}"], (of_nets[0] + of_nets[1]) / 2)


@pytest.mark.parametrize("name", ["arcface", "cosface", "normalized_softmax", "roth_arcface"])
def test_logits_are_those_of_the_loss(name: str) -> None:
    base = loss(name)
    z = F.normalize(torch.randn(12, 4, generator=seeds.torch_generator("embeddings")), dim=1)
    y = torch.arange(12) % 4
    logits = class_logits(base, z, y)
    assert logits.shape == (12, 4)
    assert F.cross_entropy(logits, y).item() == pytest.approx(base(z, y).item(), rel=1e-6)
