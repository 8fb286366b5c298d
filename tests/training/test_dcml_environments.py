"""DCML's environments: what they are learned by, when, and what they leave alone."""

from __future__ import annotations

import itertools
import math
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from dcml_models import KINDS, built, class_weights, logits_by_hand, passes, penalty_by_dummy, unlike
from fitting import weights
from torch import Tensor

from bgbias import seeds
from bgbias.training.methods import Batch
from bgbias.training.methods._invariance import Environments, batch_weights

pytestmark = pytest.mark.usefixtures("small_plugins")


def test_golden_weights_of_a_photo() -> None:
    """Logits 0 and ln 3 are 1/4 and 3/4 of a photo: two such photos share an environment by halves, and of one with equal
    logits, which is half in either, environments have 2/3 and 2/5.
    """
    divided = [0.0, math.log(3)]
    assert batch_weights(torch.tensor([divided] * 2)).flatten().tolist() == pytest.approx([0.5] * 4)
    unequal = batch_weights(torch.tensor([divided, [7.0, 7.0]]))
    assert unequal.flatten().tolist() == pytest.approx([1 / 3, 3 / 5, 2 / 3, 2 / 5])
    # Photos that an environment hardly holds.
    hardly = batch_weights(torch.tensor([[0.0, 400.0], [0.0, 401.0], [0.0, 400.0]]))
    assert hardly.sum(0).tolist() == pytest.approx([1, 1])
    assert hardly[0, 0].item() == pytest.approx(1 / (2 + math.exp(-1)))


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
    """Two passes of Adam, with both differentiations by machine."""
    method = unlike(built(kind, passes=2))
    generator = seeds.torch_generator("environments", "squares", 0, 1)
    logits = torch.randn((20, 2), generator=generator).double().requires_grad_()
    optimizer, kept, best = torch.optim.Adam([logits], lr=0.5), logits, -1.0
    for number in range(2):
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


def test_the_pass_with_the_highest_mean_is_kept() -> None:
    """Gradients that turn round after the first pass, so that the second is lower."""
    environments, rows = Environments(2, 2), torch.tensor([0, 1])
    first = [[torch.tensor([[4.0], [0.0]])], [torch.tensor([[0.0], [4.0]])]]
    small = [[g / 100 for g in of] for of in first]
    kept: list[Tensor] = []

    def batches_of(gradients: Any) -> Any:
        kept.append(environments.logits.clone())
        yield rows, gradients

    environments.draw(seeds.torch_generator("start"))
    reached = environments.learn([partial(batches_of, each) for each in (first, small, small)], 0.5)
    assert reached[0] > reached[1]
    assert not torch.equal(kept[0], kept[1])
    assert torch.equal(environments.logits, kept[1])


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


def test_one_environment_is_all_photos_alike() -> None:
    method = built("dcml_code", environments=1, alpha=0)
    method.start_epoch(1, passes=None)
    assert method.environments.weights(torch.arange(8)).flatten().tolist() == pytest.approx([1 / 8] * 8)
