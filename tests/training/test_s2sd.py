"""S2SD: a naive twin, and what it combines with (docs/methods.md, section 8)."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from fitting import batch, in_double, method
from torch import Tensor

from bgbias.training.methods import Batch

pytestmark = pytest.mark.usefixtures("small_plugins")

WIDTHS = (5, 7)


def small(**options: Any) -> Any:
    return method("s2sd", **{"widths": WIDTHS, **options})


def naive(made: Any, given: Batch, late: bool) -> Tensor:
    """One pair, one head, one sum at a time."""
    options, heads, net = made.params, made.heads, made.model
    maps = [net.trunk(x[None])[0] for x in given.images.double() / 127.5 - 1]
    pooled = [torch.stack([c.mean() + c.max() for c in a]) for a in maps]
    z = [net.embedder.weight @ a.mean((1, 2)) + net.embedder.bias for a in maps]
    spaces = [[unit(v) for v in z]]
    for first, _, second in heads:
        hidden = [torch.clamp(first.weight @ p + first.bias, min=0) for p in pooled]
        spaces.append([unit(second.weight @ h + second.bias) for h in hidden])
    losses = [made.base_loss(torch.stack(space), given.labels) for space in spaces]
    apart = [naive_divergence(spaces[0], space, options.temperature) for space in spaces[1:]]
    total = (losses[0] + sum(losses[1:]) / len(WIDTHS)) / 2 + options.weight * sum(apart) / len(WIDTHS)
    if late:
        features = [unit(p) for p in pooled]
        total = total + options.weight * naive_divergence(spaces[0], features, options.temperature)
    return total  # type: ignore[no-any-return]


def unit(v: Tensor) -> Tensor:
    return v / v.pow(2).sum().sqrt()


def naive_divergence(student: list[Tensor], teacher: list[Tensor], temperature: float) -> Tensor:
    total = torch.zeros((), dtype=torch.float64)
    for i in range(len(student)):
        s = [torch.exp((student[i] * b).sum() / temperature) for b in student]
        t = [torch.exp((teacher[i] * b).sum().detach() / temperature) for b in teacher]
        for a, b in zip(s, t, strict=True):
            p, q = b / sum(t), a / sum(s)
            total = total + p * torch.log(p / q)
    return temperature**2 / len(student) * total


@pytest.mark.parametrize(
    ("after", "late", "temperature"), [(0, True, 1.0), (0, True, 0.5), (1, False, 1.0), (None, False, 1.0)]
)
def test_loss_and_gradient_agree_with_the_naive_twin(
    after: int | None, late: bool, temperature: float
) -> None:
    given = batch()
    ours, twin = (
        in_double(small(temperature=temperature, features_after=after, weight=3.0)) for _ in range(2)
    )
    found, expected = ours.loss(given)["loss"], naive(twin, given, late)
    assert found.item() == pytest.approx(expected.item(), rel=1e-9)
    found.backward()
    expected.backward()
    for one, other in ((ours.model, twin.model), (ours.heads, twin.heads)):
        for (key, p), (_, q) in zip(one.named_parameters(), other.named_parameters(), strict=True):
            torch.testing.assert_close(p.grad, q.grad, rtol=1e-6, atol=1e-10, msg=key)


def test_features_are_learned_after_so_many_steps() -> None:
    made, never = small(features_after=2), small(features_after=None)
    differ = [
        not torch.equal(made.loss(batch(step))["loss"], never.loss(batch(step))["loss"]) for step in range(4)
    ]
    assert differ == [False, False, True, True]


@pytest.mark.parametrize("inner", ["at", "mdprop"])
def test_every_distribution_is_distilled(inner: str) -> None:
    """The sum of what S2SD makes of each distribution's maps, which are those of the method alone."""
    made = small(method=inner, options={"batch_norm": "frozen", "kappa": 0.5}, features_after=None)
    alone, seen = method(inner, batch_norm="frozen", kappa=0.5), list[Tensor]()
    alone.judge = lambda maps, labels: seen.append(maps) or maps.sum()
    found = made.loss(batch())
    alone.loss(batch())
    expected = [made.judge_maps(maps, batch().labels) for maps in seen]
    assert len(expected) == 2
    torch.testing.assert_close(found["loss"], expected[0] + 0.5 * expected[1])
    torch.testing.assert_close(found["base_loss"], expected[0])


def test_class_weights_are_of_each_width_and_heads_alike_for_every_method() -> None:
    made, other = small(of="arcface"), small(method="at")
    assert [tuple(p.shape) for p in made.losses.parameters()] == [(5, 4), (7, 4)]
    assert [group.get("lr") for group in made.own_parameters(1e-3)] == [None, made.task.loss_lr]
    made.loss(batch())["loss"].backward()
    assert all(p.grad is not None for p in made.losses.parameters())
    with pytest.raises(ValueError, match="needs a task"):
        type(made)(made.model, made.base_loss, made.params)
    for a, b in zip(made.heads.parameters(), other.heads.parameters(), strict=True):
        assert torch.equal(a, b)
    assert made.heads[0][0].weight.abs().max() <= 8**-0.5
