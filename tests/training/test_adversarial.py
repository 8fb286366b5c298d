"""Adversarial training and S2SD: naive twins, and what a study makes of them (docs/methods.md, section 8)."""

import math
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from fitting import batch, gradients, in_double, method, weights
from small_study import data_nodes, history, load
from torch import Tensor
from torch.nn.functional import normalize

from bgbias import attacks, seeds
from bgbias.compute.device import autocast
from bgbias.errors import UserError
from bgbias.models.model import EmbeddingModel
from bgbias.nodes.train import cost, depends, train
from bgbias.study import methods, plan
from bgbias.study.cell import Cell
from bgbias.training.methods import Batch

pytestmark = pytest.mark.usefixtures("small_plugins")

CASES: list[tuple[str, dict[str, Any]]] = [
    ("at", {"attacks": ["stax", "mtax:3"], "kappa": 0.5}),
    ("advprop_d", {"steps": 2}),
    ("mdprop", {"attacks": ["stax", "mtax:2"], "kappa": 0.3, "epsilon": 0.1}),
    ("at", {"losses": "joint_half"}),
    ("mdprop", {"attacks": ["stax", "mtax:2"], "losses": "joint_half"}),
    ("mdprop", {"attacks": ["stax", "mtax:2", "mtax:3"], "losses": "joint_half", "l2_reduction": "released"}),
]


def naive(made: Any, given: Batch) -> Tensor:
    """A whole network for each batch norm, whose other weights are the same tensors; photos are attacked one by one."""
    net, options, labels = made.model, made.params, given.labels
    grey, nets = given.images.double(), {"": net}
    shown, parts = {"": grey}, {"": torch.arange(len(labels))}
    for number, name in enumerate(made.attacks):
        twin = nets[name] = deepcopy(net)
        twin.trunk[1] = made.norms.sets[number][0] if made.norms else net.trunk[1]
        twin.trunk[0], twin.embedder = net.trunk[0], net.embedder
        shares = parts[""].tensor_split(len(made.attacks))
        parts[name] = shares[number] if options.losses == "joint_half" else parts[""]
        key = (name, *given.index.tolist())
        of_targets = seeds.torch_generator("attack targets", *key)
        rows = attacks.targets_of_batch(labels, attacks.targets(name), of_targets)
        noise = attacks.uniform(grey[parts[name]], seeds.torch_generator("attack noise", *key))
        twin.eval()
        embed = partial(embed_grey, twin)
        changed = []
        for row, drawn in zip(parts[name].tolist(), noise, strict=True):
            photo, goal = grey[row : row + 1], embed(grey[rows[row]])[None]
            begin = attacks.start(photo, options.noise, drawn)
            changed.append(attacks.attack(embed, photo, goal, name, options, begin))
        shown[name] = torch.cat(changed)
    for twin in nets.values():
        twin.train()
    if made.norms is None:
        whole = embed_grey(net, torch.cat(list(shown.values())))
        found = dict(zip(shown, whole.split([len(x) for x in shown.values()]), strict=True))
    else:
        found = {name: embed_grey(nets[name], x) for name, x in shown.items()}
    if options.losses == "joint_half":
        joined = torch.cat([labels[rows] for rows in parts.values()])
        return made.base_loss(torch.cat(list(found.values())), joined)  # type: ignore[no-any-return]
    clean, *others = (made.base_loss(z, labels) for z in found.values())
    return clean + options.kappa * sum(others)  # type: ignore[no-any-return]


def embed_grey(net: EmbeddingModel, grey: Tensor) -> Tensor:
    return net(grey / 127.5 - 1)  # type: ignore[no-any-return]


@pytest.mark.parametrize("frozen", [True, False])
@pytest.mark.parametrize(("name", "options"), CASES)
def test_training_agrees_with_its_naive_twin(name: str, options: dict[str, Any], frozen: bool) -> None:
    kept = {"batch_norm": "frozen" if frozen else "trained"}
    ours, twin = (in_double(method(name, **kept, **options)) for _ in range(2))
    before, given = weights(ours), batch()
    found = ours.loss(given)["loss"]
    expected = naive(twin, given)
    assert found.item() == pytest.approx(expected.item(), rel=1e-9)
    theirs = gradients(twin, expected)
    for key, gradient in gradients(ours, found).items():
        torch.testing.assert_close(gradient, theirs[key], rtol=1e-6, atol=1e-10)
    for key, value in weights(ours).items():
        torch.testing.assert_close(value, weights(twin)[key], msg=key)
        assert not frozen or torch.equal(value, before[key]), key


@pytest.mark.parametrize("name", ["at", "mdprop"])
def test_mixed_precision_loses_no_gradient(name: str) -> None:
    """A cache of weights in bfloat16 must not outlive the pass without gradients that embeds the targets."""
    made, exact = (method(name, batch_norm="frozen") for _ in range(2))
    with autocast("cpu", "bf16"):
        found = made.loss(batch())["loss"]
    assert found.dtype == torch.float32
    with autocast("cpu", "fp32"):
        expected = exact.loss(batch())["loss"]
    assert found != expected
    whole = gradients(exact, expected)
    for key, gradient in gradients(made, found).items():
        assert math.isclose(gradient.norm(), whole[key].norm(), rel_tol=0.2), key


# S2SD.

WIDTHS = (5, 7)


def naive_distillation(made: Any, given: Batch, late: bool) -> Tensor:
    """Heads one by one, from one space into another."""
    options, net = made.params, made.model
    maps = net.trunk(given.images.double() / 127.5 - 1)
    pooled = maps.mean((2, 3)) + maps.amax((2, 3))
    own = normalize(net.embedder(maps.mean((2, 3))), dim=1)
    spaces = [normalize(head(pooled), dim=1) for head in made.heads]
    losses = [made.base_loss(space, given.labels) for space in spaces]
    base, apart = made.base_loss(own, given.labels), [divergence(own, s, options) for s in spaces]
    total = (base + sum(losses) / len(WIDTHS)) / 2 + options.weight * sum(apart) / len(WIDTHS)
    if late:
        total = total + options.weight * divergence(own, normalize(pooled, dim=1), options)
    return total  # type: ignore[no-any-return]


def divergence(student: Tensor, teacher: Tensor, options: Any) -> Tensor:
    """Of the photos' similarities with each other; the teacher's are constants."""
    p, q = ((z @ z.T / options.temperature).softmax(1) for z in (teacher.detach(), student))
    return options.temperature**2 * (p * (p / q).log()).sum(1).mean()


@pytest.mark.parametrize(("after", "temperature"), [(0, 0.5), (1, 1.0), (None, 1.0)])
def test_distillation_agrees_with_its_naive_twin(after: int | None, temperature: float) -> None:
    """Features are learned after so many steps."""
    options = {"temperature": temperature, "features_after": after, "weight": 3.0}
    ours, twin = (in_double(method("s2sd", widths=WIDTHS, **options)) for _ in range(2))
    for step in range(2):
        found = ours.loss(batch(step))["loss"]
        expected = naive_distillation(twin, batch(step), after is not None and step >= after)
        assert found.item() == pytest.approx(expected.item(), rel=1e-9)
    found.backward()
    expected.backward()
    for one, other in ((ours.model, twin.model), (ours.heads, twin.heads)):
        for (key, p), (_, q) in zip(one.named_parameters(), other.named_parameters(), strict=True):
            torch.testing.assert_close(p.grad, q.grad, rtol=1e-6, atol=1e-10, msg=key)


@pytest.mark.parametrize("inner", ["at", "mdprop"])
def test_every_distribution_is_distilled(inner: str) -> None:
    """The sum of what S2SD makes of each distribution's maps, which are those of the method alone."""
    kept = {"batch_norm": "frozen", "kappa": 0.5}
    made = method("s2sd", widths=WIDTHS, method=inner, options=kept, features_after=None)
    alone, seen = method(inner, **kept), list[Tensor]()
    alone.judge = lambda maps, labels: seen.append(maps) or maps.sum()
    found = made.loss(batch())
    alone.loss(batch())
    expected = [made.judge_maps(maps, batch().labels) for maps in seen]
    assert len(expected) == 2
    torch.testing.assert_close(found["loss"], expected[0] + 0.5 * expected[1])
    torch.testing.assert_close(found["base_loss"], expected[0])


def test_class_weights_are_of_each_width_and_heads_alike_for_every_method() -> None:
    made, other = method("s2sd", widths=WIDTHS, of="arcface"), method("s2sd", widths=WIDTHS, method="at")
    assert [tuple(p.shape) for p in made.losses.parameters()] == [(5, 4), (7, 4)]
    assert [group.get("lr") for group in made.own_parameters(1e-3)] == [None, made.task.loss_lr]
    made.loss(batch())["loss"].backward()
    assert all(p.grad is not None for p in made.losses.parameters())
    with pytest.raises(ValueError, match="needs a task"):
        type(made)(made.model, made.base_loss, made.params)
    for a, b in zip(made.heads.parameters(), other.heads.parameters(), strict=True):
        assert torch.equal(a, b)
    assert made.heads[0][0].weight.abs().max() <= 8**-0.5


# In a study.


@pytest.fixture
def raw(raw: dict[str, Any]) -> dict[str, Any]:
    attacked, pairs = {"attacks": ["stax", "mtax:2"]}, {"images_per_class": 2}
    distilled = {"kind": "s2sd", "method": "mdprop", "options": attacked, "widths": [5, 7], **pairs}
    raw["methods"] = {"mdprop_2": {"kind": "mdprop", **attacked, **pairs}, "s2sd_mdprop": distilled}
    raw["grids"]["small"]["cells"][0] |= {"methods": ["plain"], "losses": ["contrastive"]}
    return raw


def test_a_network_without_batch_norm_is_refused(tmp_path: Path, raw: dict[str, Any]) -> None:
    raw["backbones"]["tiny"] = {}
    block = raw["grids"]["small"]["cells"][0]
    for name in ("mdprop_2", "st_unfrozen", "s2sd_mdprop"):
        block |= {"methods": [name], "backbones": ["pixels"]}
        assert plan.checked_cells(load(tmp_path, raw))
        block["backbones"] = ["pixels", "tiny"]
        with pytest.raises(UserError, match="tiny has no batch norm"):
            plan.checked_cells(load(tmp_path, raw))


def test_a_study_trains_them_and_its_plans_know_of_attacks(tmp_path: Path, raw: dict[str, Any]) -> None:
    """An edited attack makes the models anew that are trained with it, and no others; the forecast counts its passes."""
    study, names = load(tmp_path, raw), ("plain", "mdprop_2+bgaugment", "st_2xbatch")
    plain, attacked, twice = (Cell("squares", "pixels", "contrastive", name, 0) for name in names)
    distilled = Cell("squares", "pixels", "arcface", "s2sd_mdprop", 0)
    read = [{m.__name__ for m in depends(study, cell).code} for cell in (plain, attacked, distilled)]
    assert not any("attacks" in name for name in read[0])
    assert {"bgbias.attacks.stax", "bgbias.attacks.mtax"} <= read[1]
    inner = {"bgbias.training.methods.s2sd", "bgbias.training.methods._adversarial", "bgbias.attacks.stax"}
    assert inner <= read[2]
    assert methods.find({"none": {"kind": "at", "epsilon": 0}}, "none").uses == []
    usual, adversarial, wide = (cost(study, cell) for cell in (plain, attacked, twice))
    # Of 8 photos: these, two attacks' steps, which count two thirds, and what two attacks make.
    assert adversarial.backward[1] == (8 + 11 + 16) / 8 * usual.backward[1]
    assert wide.backward[1] == 2 * usual.backward[1]
    assert adversarial.forward[1] > 6 * usual.backward[1]
    data_nodes(study)
    for cell in (attacked, twice, distilled):
        train(study, cell, "cpu")
    found = history(study.files.at("history", **attacked.wildcards))
    assert {"loss", "base_loss", "stax", "mtax_2"} <= set(found[0])
