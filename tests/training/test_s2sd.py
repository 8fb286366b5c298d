"""S2SD: golden values, a naive twin, what it combines with (docs/methods.md, sections 8 and 11, G10d)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from adversarial_models import batch, method, model
from pydantic import ValidationError
from small_study import data_nodes, described, load
from torch import Tensor

from bgbias import plugins, seeds
from bgbias.errors import UserError
from bgbias.nodes.train import depends, train
from bgbias.study import plan
from bgbias.study.cell import Cell
from bgbias.training.methods import Batch, Task
from bgbias.training.methods import s2sd as distillation

pytestmark = pytest.mark.usefixtures("small_plugins")

WIDTHS = (5, 7)


def small(**options: Any) -> Any:
    return method("s2sd", **{"widths": WIDTHS, **options})


def double(value: list[list[float]]) -> Tensor:
    return torch.tensor(value, dtype=torch.float64)


@pytest.mark.parametrize(("temperature", "expected"), [(1.0, 0.01861), (2.0, 0.019638)])
def test_golden_divergence(temperature: float, expected: float) -> None:
    student, teacher = double([[1, 0.2], [0.2, 1]]), double([[1, 0.6], [0.6, 1]])
    found = distillation.divergence(student, teacher, temperature)
    assert found.item() == pytest.approx(expected, abs=5e-7)


def test_golden_total() -> None:
    one, two = (torch.tensor(v, dtype=torch.float64) for v in (1.0, 2.0))
    apart = distillation.divergence(double([[1, 0.2], [0.2, 1]]), double([[1, 0.6], [0.6, 1]]), 1.0)
    assert distillation.distilled(one, [two], [apart], 50, 1.0).item() == pytest.approx(2.430517, abs=5e-6)
    assert distillation.distilled(one, [two], [apart], 50, 0.0).item() == 1.0


def test_divergence_moves_the_student_alone() -> None:
    student, teacher = (double([[1, 0.2], [0.2, 1]]).requires_grad_() for _ in range(2))
    distillation.divergence(student, teacher * 2, 1.0).backward()
    assert student.grad is not None
    assert teacher.grad is None


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


@pytest.mark.parametrize(("after", "late"), [(0, True), (1, False), (None, False)])
@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_loss_and_gradient_agree_with_the_naive_twin(
    temperature: float, after: int | None, late: bool
) -> None:
    given = batch(size=8)
    ours, twin = (small(temperature=temperature, features_after=after, weight=3.0) for _ in range(2))
    for made in (ours, twin):
        for part in made.modules().values():
            part.double()
        made.inner.grey_levels = lambda given: given.images.double()
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


@pytest.mark.parametrize("inner", ["at", "advprop_d", "mdprop"])
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


def test_class_weights_are_of_each_width() -> None:
    loss = plugins.load("losses", "arcface")
    params = loss.Params(margin=20, scale=16, lr=0.5)

    def loss_of(width: int) -> torch.nn.Module:
        made: torch.nn.Module = loss.build(params, 4, width, seeds.torch_generator("w", width))
        return made

    task = Task(torch.arange(4).repeat_interleave(2), ("squares", 0), loss_of, 0.5)
    module = plugins.load("methods", "s2sd")
    made = module.Method(model().train(), loss_of(4), module.Params(widths=WIDTHS), task)
    assert [tuple(p.shape) for p in made.losses.parameters()] == [(5, 4), (7, 4)]
    assert [group.get("lr") for group in made.own_parameters(1e-3)] == [None, 0.5]
    made.loss(batch())["loss"].backward()
    assert all(p.grad is not None for p in made.losses.parameters())
    with pytest.raises(ValueError, match="needs a task"):
        module.Method(model(), loss_of(4), module.Params(widths=WIDTHS))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"method": "sam_triplet"}, "'sam_triplet' cannot be distilled"),
        ({"method": "s2sd"}, "'s2sd' cannot be distilled"),
        ({"method": "at", "options": {"epsilon": -1}}, r"options\.epsilon"),
        ({"method": "at", "options": {"epsilom": 1}}, r"options\.epsilom"),
        ({"method": "at", "options": {"images_per_class": 2}}, "beside method"),
        ({"widths": []}, "at least 1"),
        ({"widths": [0]}, "1 or more"),
    ],
)
def test_options_that_make_no_sense_are_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        plugins.load("methods", "s2sd").Params(**wrong)


def test_a_method_that_is_none_is_refused() -> None:
    with pytest.raises(UserError, match=r"no 'mdpro' in methods.*Did you mean 'mdprop'"):
        plugins.load("methods", "s2sd").Params(method="mdpro")


def test_a_study_trains_it_on_replaced_backgrounds_with_mdprop(tmp_path: Path) -> None:
    raw = described(tmp_path)
    entry = {"kind": "s2sd", "method": "mdprop", "options": {"attacks": ["stax"]}, "widths": list(WIDTHS)}
    raw["methods"] = {"s2sd_mdprop": entry}
    block = raw["grids"]["small"]["cells"][0]
    block |= {"methods": ["s2sd_mdprop+bgaugment"], "losses": ["arcface"]}
    study = load(tmp_path, raw)
    plan.checked_cells(study)
    cell = Cell("squares", "pixels", "arcface", "s2sd_mdprop+bgaugment", 0)
    names = {m.__name__.removeprefix("bgbias.") for m in depends(study, cell).code}
    assert {"training.methods.s2sd", "training.methods._adversarial", "attacks.stax"} <= names
    data_nodes(study)
    train(study, cell, "cpu")
    assert study.files.at("model", **cell.wildcards).is_file()


def test_heads_start_alike_for_every_method() -> None:
    first, second = small(), small(method="at")
    for a, b in zip(first.heads.parameters(), second.heads.parameters(), strict=True):
        assert torch.equal(a, b)
    assert first.heads[0][0].weight.abs().max() <= 8**-0.5
