"""Adversarial training: a naive twin of every loss, and what it leaves as it is (docs/methods.md, section 8)."""

from __future__ import annotations

import math
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from fitting import batch, fit, gradients, in_double, method, weights
from small_study import data_nodes, described, history, load
from torch import Tensor

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
def test_loss_gradient_and_statistics_agree_with_the_naive_twin(
    name: str, options: dict[str, Any], frozen: bool
) -> None:
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
    whole = gradients(exact, exact.loss(batch())["loss"])
    for key, gradient in gradients(made, found).items():
        assert math.isclose(gradient.norm(), whole[key].norm(), rel_tol=0.2), key


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


@pytest.mark.parametrize("name", ["mdprop_2", "st_unfrozen", "s2sd_mdprop"])
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
