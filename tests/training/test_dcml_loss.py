"""DCML's loss against its slow twin, its ablations, and its neutral setting."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from dcml_models import (
    ALONE,
    KINDS,
    built,
    class_weights,
    logits_by_hand,
    one_batch,
    penalty_by_dummy,
    unlike,
)
from torch import Tensor

from bgbias import plugins, seeds
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


@pytest.mark.parametrize("kind", KINDS)
def test_every_penalty_weighs_as_much_as_it_is_told(kind: str) -> None:
    parts = unlike(built(kind, alpha=2, beta=3, gamma=5)).loss(one_batch())
    total = parts["base_loss"] + parts["environments"]
    total = total + 2 * parts["irm"] + 3 * parts["attention"] + 5 * parts["task"]
    assert parts["loss"].item() == pytest.approx(total.item(), rel=1e-12)
    assert all(value.item() > 0 for value in parts.values())


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
    alike, apart = built(kind, environments=3), built(kind, environments=3, same_start=False)
    for method, same in ((alike, True), (apart, False)):
        first, *others = (dict(net.named_parameters()) for net in method.nets)
        assert all(torch.equal(net[name], first[name]) == same for net in others for name in first)
        neck = method.model.neck.state_dict()
        assert all(torch.allclose(neck[name], first[name], rtol=1e-5) == same for name in first)


@pytest.mark.parametrize("kind", KINDS)
def test_without_environments_and_attention_the_loss_is_plain(kind: str) -> None:
    method, plain = built(kind, **ALONE), built("plain")
    batch = one_batch()
    found = method.loss(batch)
    assert found.keys() == {"loss"}
    assert torch.equal(found["loss"], plain.loss(batch)["loss"])


@pytest.mark.parametrize("loss", ["arcface", "cosface", "normalized_softmax"])
def test_logits_are_those_of_the_loss(loss: str) -> None:
    from bgbias.training.losses._terms import class_logits

    module = plugins.load("losses", loss)
    settings = (
        {"margin": 0.3, "scale": 10, "lr": 1} if "softmax" not in loss else {"temperature": 0.1, "lr": 1}
    )
    base = module.build(module.Params(**settings), 5, 6, seeds.torch_generator("class weights"))
    generator = seeds.torch_generator("embeddings")
    z, y = F.normalize(torch.randn(12, 6, generator=generator), dim=1), torch.arange(12) % 5
    logits = class_logits(base, z, y)
    assert logits.shape == (12, 5)
    assert F.cross_entropy(logits, y).item() == pytest.approx(base(z, y).item(), rel=1e-6)
