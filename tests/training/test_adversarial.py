"""Adversarial training: a naive twin of every loss, and what it leaves as it is (docs/methods.md, sections 8 and 11, G10)."""

from __future__ import annotations

import math
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from fitting import SETTINGS, batch, fit, gradients, in_double, method, same, weights
from small_study import data_nodes, described, history, load
from torch import Tensor, nn

from bgbias import attacks, seeds
from bgbias.compute.device import autocast
from bgbias.errors import UserError
from bgbias.models import model as models
from bgbias.models.model import EmbeddingModel
from bgbias.nodes.train import cost, depends, train
from bgbias.study import methods, plan
from bgbias.study.cell import Cell
from bgbias.training.methods import Batch

pytestmark = pytest.mark.usefixtures("small_plugins")

CASES: list[tuple[str, dict[str, Any]]] = [
    ("at", {}),
    ("at", {"attacks": ["stax", "mtax:3"], "kappa": 0.5}),
    ("advprop_d", {"steps": 2}),
    ("mdprop", {}),
    ("mdprop", {"attacks": ["stax", "mtax:2"], "kappa": 0.3, "epsilon": 0.1}),
    ("at", {"losses": "joint_half"}),
    ("mdprop", {"attacks": ["stax", "mtax:2"], "losses": "joint_half"}),
    ("mdprop", {"attacks": ["stax", "mtax:2", "mtax:3"], "losses": "joint_half", "l2_reduction": "released"}),
]


def names(made: Any) -> tuple[str, ...]:
    return tuple(made.attacks)


def naive_contrastive(z: list[Tensor], labels: list[int]) -> Tensor:
    """Over ordered pairs, means of what is not 0: margins .2 and 1.5."""
    terms: dict[bool, list[Tensor]] = {True: [], False: []}
    for i, a in enumerate(z):
        for j, b in enumerate(z):
            if i != j:
                apart = (a - b).pow(2).sum().sqrt()
                excess = apart - 0.2 if labels[i] == labels[j] else 1.5 - apart
                if excess > 0:
                    terms[labels[i] == labels[j]].append(excess)
    return sum((torch.stack(t).mean() for t in terms.values() if t), torch.zeros((), dtype=torch.float64))


def naive(made: Any, given: Batch) -> tuple[Tensor, dict[str, EmbeddingModel]]:
    """A whole network for each batch norm, whose other weights are the same tensors; photos are attacked one by one."""
    net, options, labels = made.model, made.params, given.labels.tolist()
    nets = {"": net}
    for number, name in enumerate(names(made)):
        twin = deepcopy(net)
        twin.trunk[1] = made.norms.sets[number][0] if made.norms else net.trunk[1]
        twin.trunk[0], twin.embedder = net.trunk[0], net.embedder
        nets[name] = twin
    grey = given.images.double()
    parts = {"": list(range(len(labels)))}
    for number, name in enumerate(names(made)):
        share = torch.arange(len(labels)).tensor_split(len(names(made)))[number].tolist()
        parts[name] = share if options.losses == "joint_half" else parts[""]
    shown = {"": grey}
    for name in names(made):
        twin = nets[name].eval()
        count = attacks.targets(name)
        key = (name, *given.index.tolist())
        rows = attacks.targets_of_batch(
            given.labels, count, seeds.torch_generator("attack targets", *key)
        ).tolist()
        chosen = grey[parts[name]]
        generator = seeds.torch_generator("attack noise", *key)
        noise = 2 * torch.rand(chosen.shape, generator=generator, dtype=torch.float64) - 1
        std = torch.tensor([0.229, 0.224, 0.225], dtype=torch.float64).view(3, 1, 1)
        reach = 255 * options.epsilon * std
        changed = []
        for place, row in enumerate(parts[name]):
            photo = grey[row]
            goal = [twin(grey[t][None] / 127.5 - 1)[0].detach() for t in rows[row]]
            x = limited(photo + 255 * options.noise * std * noise[place], photo, reach)
            for _ in range(options.steps):
                leaf = x.clone().requires_grad_()
                apart = [(twin(leaf[None] / 127.5 - 1)[0] - e).pow(2).sum() for e in goal]
                if options.l2_reduction != "squared":
                    apart = [a.sqrt() for a in apart]
                (slope,) = torch.autograd.grad(sum(apart, torch.zeros(())), leaf)
                x = limited(x - reach / options.steps * slope.sign(), photo, reach)
            changed.append(x)
        shown[name] = torch.stack(changed)
    for twin in nets.values():
        twin.train()
    if made.norms is None:
        every = nets[""](torch.cat(list(shown.values())) / 127.5 - 1).split([len(x) for x in shown.values()])
        found = dict(zip(shown, every, strict=True))
    else:
        found = {name: nets[name](x / 127.5 - 1) for name, x in shown.items()}
    own = {name: [labels[i] for i in rows] for name, rows in parts.items()}
    if options.losses == "joint_half":
        joined = [z for name in found for z in found[name]]
        return naive_contrastive(joined, [y for name in found for y in own[name]]), nets
    each = {name: naive_contrastive(list(found[name]), own[name]) for name in found}
    total = each[""] + options.kappa * sum(each[n] for n in names(made))
    return total, nets


def limited(x: Tensor, photo: Tensor, reach: Tensor) -> Tensor:
    return torch.minimum(torch.maximum(x, photo - reach), photo + reach).clamp(0, 255)


@pytest.mark.parametrize("frozen", [True, False])
@pytest.mark.parametrize(("name", "options"), CASES)
def test_loss_gradient_and_statistics_agree_with_the_naive_twin(
    name: str, options: dict[str, Any], frozen: bool
) -> None:
    kept = {"batch_norm": "frozen" if frozen else "trained"}
    ours, twin = (in_double(method(name, **kept, **options)) for _ in range(2))
    before, given = weights(ours), batch()
    found = ours.loss(given)["loss"]
    expected, _ = naive(twin, given)
    assert found.item() == pytest.approx(expected.item(), rel=1e-9)
    theirs = gradients(twin, expected)
    for key, gradient in gradients(ours, found).items():
        torch.testing.assert_close(gradient, theirs[key], rtol=1e-6, atol=1e-10)
    for key, value in weights(ours).items():
        torch.testing.assert_close(value, weights(twin)[key], msg=key)
        assert not frozen or torch.equal(value, before[key]), key


def test_golden_losses_separate_and_joint(monkeypatch: pytest.MonkeyPatch) -> None:
    """G10g, on what the method calls: one loss each, or one of all."""
    monkeypatch.setitem(SETTINGS, "contrastive", {"pos_margin": 0.2, "neg_margin": 0.9})
    z = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0], [-0.6, 0.8]], dtype=torch.float64)
    moved = z + torch.tensor([[0.1, 0.0], [0.0, 0.1], [-0.1, 0.0], [0.0, -0.1]], dtype=torch.float64)
    given = Batch(batch().images[:4], torch.tensor([0, 0, 1, 1]), torch.arange(4))
    for losses, value in (("separate", 0.889551), ("joint_half", 0.481434)):
        made = method("advprop_d", losses=losses)
        maps = iter((z, nn.functional.normalize(moved, dim=1)))
        made.model.pooled_map = lambda _, maps=maps: next(maps)
        made.model.embed_features = lambda features: features
        made.attack_batch = lambda photos, given: ([photos], [torch.arange(4)])
        assert made.loss(given)["loss"].item() == pytest.approx(value, abs=5e-7)


@pytest.mark.parametrize("memory", [torch.contiguous_format, torch.channels_last])
def test_attacks_do_not_depend_on_how_photos_lie_in_memory(memory: torch.memory_format) -> None:
    given = batch()
    laid = replace(given, images=given.images.contiguous(memory_format=memory))
    (found,), _ = method("at").attack_batch(laid.images.float(), laid)
    (expected,), _ = method("at").attack_batch(given.images.float(), given)
    assert found.is_contiguous(memory_format=memory)
    torch.testing.assert_close(found.contiguous(), expected)


@pytest.mark.parametrize("name", ["at", "mdprop"])
def test_mixed_precision_loses_no_gradient(name: str) -> None:
    """A cache of weights in bfloat16 must not outlive the pass without gradients that embeds the targets."""
    made, exact = (method(name, batch_norm="frozen") for _ in range(2))
    with autocast("cpu", "bf16"):
        found = made.loss(batch())["loss"]
    assert found.dtype == torch.float32
    whole = gradients(exact, exact.loss(batch())["loss"])
    for key, gradient in gradients(made, found).items():
        assert math.isclose(gradient.norm(), whole[key].norm(), rel_tol=0.2), key


def test_trained_norms_are_plain_training_with_norms_that_learn(tmp_path: Path) -> None:
    plain = fit(method("plain", frozen=False), tmp_path, "plain")
    assert same(fit(method("st_unfrozen"), tmp_path, "unfrozen"), plain)
    assert same(fit(method("mdprop", epsilon=0.0), tmp_path, "neutral"), plain)


def test_frozen_parts_have_frozen_norms_of_their_own(tmp_path: Path) -> None:
    name = "norms.sets.0.0.weight"
    before = weights(method("mdprop"))[name]
    assert torch.equal(fit(method("mdprop"), tmp_path, "frozen", frozen=("1",))[name], before)
    assert not torch.equal(fit(method("mdprop"), tmp_path, "trained")[name], before)


# In a study.

PLAIN, MDPROP, TWICE = (
    Cell("squares", "pixels", "contrastive", name, 0)
    for name in ("plain", "mdprop_2+bgaugment", "st_2xbatch")
)
DISTILLED = Cell("squares", "pixels", "arcface", "s2sd_mdprop", 0)


@pytest.fixture
def raw(tmp_path: Path) -> dict[str, Any]:
    given = described(tmp_path)
    attacked = {"attacks": ["stax", "mtax:2"]}
    given["methods"] = {
        "mdprop_2": {"kind": "mdprop", **attacked, "images_per_class": 2},
        "s2sd_mdprop": {"kind": "s2sd", "method": "mdprop", "options": attacked, "widths": [5, 7]},
    }
    named = ["plain", "mdprop_2+bgaugment", "st_2xbatch"]
    given["grids"]["small"]["cells"][0] |= {"methods": named, "losses": ["contrastive"]}
    return given


def test_a_study_trains_them_and_their_files_are_networks_like_any_other(
    tmp_path: Path, raw: dict[str, Any]
) -> None:
    study = load(tmp_path, raw)
    data_nodes(study)
    for cell in (MDPROP, TWICE, DISTILLED):
        train(study, cell, "cpu")
    found = history(study.files.at("history", **MDPROP.wildcards))
    assert {"loss", "base_loss", "stax", "mtax_2"} <= set(found[0])
    saved, twice = (models.load(study.files.at("model", **c.wildcards)) for c in (MDPROP, TWICE))
    assert saved.auxiliary_norms == ("stax", "mtax:2")
    assert not saved.freeze_batch_norm
    assert twice.auxiliary_norms == ()
    assert twice.state_dict().keys() == saved.state_dict().keys()


def test_a_batch_with_fewer_classes_than_targets_is_refused_before_anything_runs(
    tmp_path: Path, raw: dict[str, Any]
) -> None:
    raw["methods"]["mdprop_2"] |= {"attacks": ["mtax:4"]}
    with pytest.raises(UserError, match=r"4 other classes of a batch, but a batch of 8 .* at least 10"):
        plan.checked_cells(load(tmp_path, raw))
    raw["methods"]["mdprop_2"] |= {"epsilon": 0}
    assert plan.checked_cells(load(tmp_path, raw))


@pytest.mark.parametrize("name", ["mdprop_2", "advprop_d", "st_unfrozen", "s2sd_mdprop"])
def test_a_network_without_batch_norm_is_refused_before_anything_runs(
    name: str, tmp_path: Path, raw: dict[str, Any]
) -> None:
    raw["backbones"]["tiny"] = {}
    raw["methods"]["s2sd_mdprop"]["images_per_class"] = 2
    block = raw["grids"]["small"]["cells"][0] | {"methods": [name]}
    raw["grids"]["small"]["cells"] = [block]
    assert plan.checked_cells(load(tmp_path, raw))
    block["backbones"] = ["pixels", "tiny"]
    with pytest.raises(UserError, match="tiny has no batch norm"):
        plan.checked_cells(load(tmp_path, raw))
    block["methods"] = ["at"]
    assert plan.checked_cells(load(tmp_path, raw))


def test_plans_know_of_attacks(tmp_path: Path, raw: dict[str, Any]) -> None:
    """An edited attack makes the models anew that are trained with it, and no others; the forecast counts its passes."""
    study = load(tmp_path, raw)
    plain, attacked, distilled = (
        {m.__name__.removeprefix("bgbias.") for m in depends(study, cell).code}
        for cell in (PLAIN, MDPROP, DISTILLED)
    )
    assert not any("attacks" in name for name in plain)
    assert {"attacks.stax", "attacks.mtax"} <= attacked
    assert {"training.methods.s2sd", "training.methods._adversarial", "attacks.stax"} <= distilled
    assert methods.find({"none": {"kind": "at", "epsilon": 0}}, "none").uses == []
    usual, adversarial, twice = (cost(study, cell) for cell in (PLAIN, MDPROP, TWICE))
    # Of 8 photos: these, two attacks' steps, which count two thirds, and what two attacks make.
    assert adversarial.backward[1] == (8 + 11 + 16) / 8 * usual.backward[1]
    assert twice.backward[1] == 2 * usual.backward[1]
    assert adversarial.forward[1] > 6 * usual.backward[1]
