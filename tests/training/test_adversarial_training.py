"""Adversarial training and its controls, whole: which norms learn, what is refused, what plans know."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from adversarial_models import contrastive, method, model
from fitting import fit, same
from small_study import data_nodes, described, history, load

from bgbias.errors import UserError
from bgbias.models import model as models
from bgbias.nodes.train import cost, depends, train
from bgbias.study import methods, plan
from bgbias.study.cell import Cell
from bgbias.training.methods.plain import Method as Plain

pytestmark = pytest.mark.usefixtures("small_plugins")


def test_trained_norms_are_plain_training_with_norms_that_learn(tmp_path: Path) -> None:
    plain = fit(Plain(model(frozen=False), contrastive()), tmp_path, "plain")
    assert same(fit(method("st_unfrozen"), tmp_path, "unfrozen"), plain)
    assert same(fit(method("mdprop", epsilon=0.0), tmp_path, "neutral"), plain)
    assert not same(fit(Plain(model(), contrastive()), tmp_path, "frozen"), plain)


def test_frozen_parts_have_frozen_norms_of_their_own(tmp_path: Path) -> None:
    made = method("mdprop")
    before = made.norms.sets[0][0].weight.clone()
    fit(made, tmp_path, "frozen", frozen=("1",))
    assert torch.equal(made.norms.sets[0][0].weight, before)
    fit(trained := method("mdprop"), tmp_path, "trained")
    assert not torch.equal(trained.norms.sets[0][0].weight, before)


def cell(name: str) -> Cell:
    return Cell("squares", "pixels", "contrastive", name, 0)


@pytest.fixture
def raw(tmp_path: Path) -> dict[str, Any]:
    given = described(tmp_path)
    given["methods"] = {"mdprop_2": {"kind": "mdprop", "attacks": ["stax", "mtax:2"], "images_per_class": 2}}
    named = ["plain", "mdprop_2+bgaugment", "st_2xbatch", "at+epsilon=0.1"]
    given["grids"]["small"]["cells"][0] |= {"methods": named, "losses": ["contrastive"]}
    return given


def test_a_study_trains_them_and_their_files_are_networks_like_any_other(
    tmp_path: Path, raw: dict[str, Any]
) -> None:
    study = load(tmp_path, raw)
    data_nodes(study)
    for name in raw["grids"]["small"]["cells"][0]["methods"]:
        train(study, cell(name), "cpu")
    found = history(study.files.at("history", **cell("mdprop_2+bgaugment").wildcards))
    assert {"loss", "base_loss", "stax", "mtax_2"} <= set(found[0])
    saved = models.load(study.files.at("model", **cell("mdprop_2+bgaugment").wildcards))
    assert saved.auxiliary_norms == ("stax", "mtax:2")
    assert not saved.freeze_batch_norm
    plain = models.load(study.files.at("model", **cell("plain").wildcards))
    assert plain.auxiliary_norms == ()
    assert plain.state_dict().keys() == saved.state_dict().keys()


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
    raw["methods"]["s2sd_mdprop"] = {"kind": "s2sd", "method": "mdprop", "images_per_class": 2}
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
    names = {
        name: {m.__name__ for m in depends(study, cell(name)).code}
        for name in ("plain", "mdprop_2+bgaugment")
    }
    assert not any("attacks" in name for name in names["plain"])
    assert {"bgbias.attacks.stax", "bgbias.attacks.mtax"} <= names["mdprop_2+bgaugment"]
    assert methods.find({"none": {"kind": "at", "epsilon": 0}}, "none").uses == []
    plain, adversarial, twice = (
        cost(study, cell(name)) for name in ("plain", "mdprop_2+bgaugment", "st_2xbatch")
    )
    # Of 8 photos: these, two attacks' steps, which count two thirds, and what two attacks make.
    assert adversarial.backward[1] == (8 + 11 + 16) / 8 * plain.backward[1]
    assert twice.backward[1] == 2 * plain.backward[1]
    assert adversarial.forward[1] > 6 * plain.backward[1]
