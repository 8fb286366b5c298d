"""DCML: slow twins of its loss and of what environments are learned by (docs/methods.md, section 5)."""

import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from dcml_models import (
    KINDS,
    built,
    class_weights,
    logits_by_hand,
    one_batch,
    passes,
    penalty_by_dummy,
    unlike,
)
from fitting import fit, method, weights
from torch import Tensor

from bgbias import seeds
from bgbias.training import loop
from bgbias.training.methods import Batch
from bgbias.training.settings import Train

pytestmark = pytest.mark.usefixtures("small_plugins")


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
    middle = [sum(matrices) / len(nets) for matrices in zip(*nets, strict=True)]
    terms: list[Tensor] = []
    for j in range(chosen.environments):
        weights = shared[:, j] / shared[:, j].sum()
        attended = attended_by_hand(nets[j], features) if nets else features
        projected = attended.mean((2, 3)) @ model.embedder.weight.T + model.embedder.bias
        logits = logits_by_hand(environment_weights, projected, y)
        if kind == "dcml_paper":
            apart = (attended[:, None] - attended).square().sum((2, 3, 4))
            task = apart[(y[:, None] == y).triu(1)].sum()
        else:
            means = torch.stack([projected[y == label].mean(0) for label in y]).detach()
            task = weights @ (projected - means).square().sum(1)
        terms.append(
            (weights * F.cross_entropy(logits, y, reduction="none")).sum()
            + chosen.alpha * penalty_by_dummy(logits, y, weights)
            + chosen.gamma * task
        )
    total = sum(terms) / (len(terms) if kind == "dcml_code" else 1)
    beside = [(w, mean) for net in nets for w, mean in zip(net, middle, strict=True)]
    if nets and kind == "dcml_code":
        # The root has no slope at 0, where one net is its own mean.
        gaps = [((w - mean).square().sum() + 1e-30).sqrt() / w.abs().sum() for w, mean in beside]
        total = total + chosen.beta * sum(gap**2 for gap in gaps) / len(gaps)
        features = attended_by_hand(list(method._empirical_net.parameters()), features)
    elif nets:
        total = total + chosen.beta * sum((w - mean).square().sum() for w, mean in beside)
        features = attended_by_hand(middle, features)
    projected = features.mean((2, 3)) @ model.embedder.weight.T + model.embedder.bias
    return total + F.cross_entropy(logits_by_hand(own_weights, projected, y), y)


ABLATIONS: dict[str, dict[str, Any]] = {
    "DCML": {},
    "w/o inv emb": {"alpha": 0},
    "w/o inv at": {"beta": 0},
    "w/o inv task": {"gamma": 0},
    "w/o envs": {"environments": 1, "alpha": 0},
    "w/o at": {"attention": False},
    "k = 5": {"environments": 5},
}


@pytest.mark.parametrize("options", ABLATIONS.values(), ids=list(ABLATIONS))
@pytest.mark.parametrize("kind", KINDS)
def test_loss_agrees_with_its_slow_twin(kind: str, options: dict[str, Any]) -> None:
    """And so do the gradients of everything that is trained."""
    method, batch = unlike(built(kind, **options)), one_batch()
    found, expected = method.loss(batch)["loss"], expected_loss(method, batch, kind)
    assert found.item() == pytest.approx(expected.item(), rel=1e-10)
    named = [(k, p) for m in method.modules().values() for k, p in m.named_parameters() if "neck" not in k]
    trained = [p for _, p in named]
    slopes = torch.autograd.grad(found, trained), torch.autograd.grad(expected, trained)
    for (name, _), a, b in zip(named, *slopes, strict=True):
        assert torch.allclose(a, b, rtol=1e-8, atol=1e-12), name
        assert a.abs().sum() > 0, name


def test_all_class_weights_have_the_losss_rate() -> None:
    """Those of environments are the empirical branch's in the paper alone."""
    for kind, count in (("dcml_code", 2), ("dcml_paper", 1)):
        weights = class_weights(made := built(kind))
        groups = loop.make_optimizer(made, Train(lr=1e-3)).param_groups
        (of_loss,) = (g for g in groups if any(p is weights[0] for p in g["params"]))
        assert (len(weights), len(of_loss["params"]), of_loss["lr"]) == (count, count, 0.1)


@pytest.mark.parametrize("kind", KINDS)
def test_mixed_precision_does_not_reach_beyond_the_trunk(kind: str) -> None:
    method, batch = unlike(built(kind)), one_batch()
    for module in method.modules().values():
        module.float()
    features = method.model.features(method.photos(batch).float()).bfloat16()
    method.model.features = lambda photos: features
    expected = method.loss(batch)
    with torch.autocast("cpu", torch.bfloat16):
        found = method.loss(batch)
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    assert all(value.dtype == torch.float32 for value in found.values())


@pytest.mark.parametrize("kind", KINDS)
def test_the_model_attends_with_the_mean_of_the_nets(kind: str, tmp_path: Path) -> None:
    """As of the end of the epoch, before it is validated."""
    for is_alike in (True, False):  # as nets start
        one, other = (net.parameters() for net in built(kind, same_start=is_alike).nets)
        assert all(torch.equal(a, b) == is_alike for a, b in zip(one, other, strict=True))
    trained = fit(method(kind, "cosface", attention_lr=0.01, weights="random"), tmp_path, "mine")
    for name in ("spatial.0.weight", "channel.2.weight"):
        of_nets = [trained[f"dcml.nets.{j}.{name}"] for j in (0, 1)]
        assert not torch.equal(*of_nets)
        assert torch.equal(trained[f"model.neck.{name}"], (of_nets[0] + of_nets[1]) / 2)


def slow_objective(method: Any, logits: Tensor, batch: Batch) -> Tensor:
    """By dummies for class weights, channels and positions, and a second differentiation."""
    features = method.model.features(method.photos(batch)).detach()
    shared = logits[batch.index].softmax(1)
    values = []
    for j, net in enumerate(method.nets):
        weights = shared[:, j] / shared[:, j].sum()
        attended = net(features).detach()
        _, c, h, w = attended.shape
        dummies = [
            torch.ones(size, dtype=torch.float64, requires_grad=True) for size in ((1, c, 1, 1), (1, 1, h, w))
        ]
        projected = (attended * dummies[0] * dummies[1]).mean((2, 3)) @ method.model.embedder.weight.T
        seen = logits_by_hand(class_weights(method)[-1], projected + method.model.embedder.bias, batch.labels)
        loss = (weights * F.cross_entropy(seen, batch.labels, reduction="none")).sum()
        slopes = torch.autograd.grad(loss, dummies, create_graph=True)
        values.append(sum(s.square().sum() for s in slopes) + penalty_by_dummy(seen, batch.labels, weights))
    return sum(values) / len(values)  # type: ignore[return-value]


@pytest.mark.parametrize("kind", KINDS)
def test_learned_environments_agree_with_a_slow_twin(kind: str) -> None:
    """Four passes of Adam, of which the third has the highest mean, with both differentiations by machine."""
    method = unlike(built(kind, passes=4, environment_lr=5.0))
    generator = seeds.torch_generator("environments", "squares", 0, 1)
    logits = torch.randn((20, 2), generator=generator).double().requires_grad_()
    optimizer, kept, best = torch.optim.Adam([logits], lr=5.0), logits, -1.0
    for number in range(4):
        values = []
        for batch in passes(f"environments {number}", 64):
            value = slow_objective(method, logits, batch)
            optimizer.zero_grad()
            (-value).backward()
            optimizer.step()
            values.append(value.item())
        if (mean := sum(values) / len(values)) > best:
            kept, best = logits.detach().clone(), mean
    method.start_epoch(1, passes)
    assert torch.allclose(method.environments.logits, kept, rtol=0, atol=1e-8)
    assert not torch.equal(kept, logits)


def test_environments_are_new_every_few_epochs_and_leave_the_model_as_it_is() -> None:
    method = unlike(built("dcml_code", update_every=3, passes=2, environment_batch=16))
    before, asked, logits = weights(method), list[str](), list[Tensor]()
    for epoch in range(1, 8):
        method.start_epoch(epoch, lambda name, size: asked.append(f"{name} {size}") or passes(name, size))
        logits.append(method.environments.logits.clone())
    assert asked == [f"environments {number} 16" for _ in (1, 4, 7) for number in (0, 1)]
    assert [torch.equal(a, b) for a, b in itertools.pairwise(logits)] == [True, True, False] * 2
    after = weights(method)
    assert [n for n in before if not torch.equal(before[n], after[n])] == ["dcml.environments.logits"]
    assert all(p.grad is None for module in method.modules().values() for p in module.parameters())


def test_random_environments_are_drawn_as_often_and_never_learned() -> None:
    method = built("dcml_code", update_every=2, weights="random")
    for epoch, drawn_in in ((1, 1), (2, 1), (3, 3), (4, 3)):
        method.start_epoch(epoch, passes=None)
        generator = seeds.torch_generator("environments", "squares", 0, drawn_in)
        drawn = torch.randn((20, 2), generator=generator)
        assert torch.equal(method.environments.logits, drawn.double())
