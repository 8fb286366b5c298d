"""Adversarial training and its controls, whole: neutral settings are plain training, interruptions change nothing."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from adversarial_models import ADVERSARIAL, batch, contrastive, method, model
from small_study import data_nodes, described, history, load
from torch import Tensor

from bgbias.errors import UserError
from bgbias.models import model as models
from bgbias.nodes.train import cost, train, uses
from bgbias.study import methods, plan
from bgbias.study.cell import Cell
from bgbias.training import loop
from bgbias.training.methods import BaseMethod, Batch
from bgbias.training.methods.plain import Method as Plain
from bgbias.training.settings import Train

pytestmark = pytest.mark.usefixtures("small_plugins")

Fit = Callable[..., BaseMethod]
LEARNED: list[tuple[str, dict[str, Any]]] = [
    ("at", {}),
    ("advprop_d", {}),
    ("mdprop", {"attacks": ["stax", "mtax:3"]}),
    ("mdprop", {"batch_norm": "frozen", "losses": "joint_half"}),
    ("st_unfrozen", {}),
]


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)


def weights(made: BaseMethod) -> dict[str, Tensor]:
    return {f"{n}.{k}": v for n, part in made.modules().items() for k, v in part.state_dict().items()}


@pytest.fixture
def fit(tmp_path: Path) -> Fit:
    scores = itertools.count()

    def validate(net: models.EmbeddingModel) -> dict[str, float]:
        return {"val_map_at_r": next(scores) / 1000}

    def batches(epoch: int) -> Iterator[Batch]:
        yield from (batch(10 * epoch + step) for step in range(2))

    def run(made: BaseMethod, name: str, epochs: int = 2, **options: Any) -> BaseMethod:
        settings = Train(iterations_per_epoch=2, lr=1e-3, max_epochs=epochs, patience=9, **options)
        paths = tmp_path / f"{name}.pt", tmp_path / f"{name}.csv"
        loop.fit(made, batches, validate, "val_map_at_r", settings, *paths, digest=name)
        return made

    return run


@pytest.mark.parametrize("frozen", [True, False])
@pytest.mark.parametrize("neutral", [{"epsilon": 0.0}, {"kappa": 0.0}])
@pytest.mark.parametrize("name", ADVERSARIAL)
def test_without_attacks_it_is_plain_training_bit_for_bit(
    name: str, neutral: dict[str, float], frozen: bool, fit: Fit
) -> None:
    plain = weights(fit(Plain(model(frozen=frozen), contrastive()), "plain"))
    made = method(name, frozen=frozen, batch_norm="as_train", **neutral)
    assert same(weights(fit(made, "neutral")), plain)
    attacking = fit(method(name, frozen=frozen, batch_norm="as_train"), "attacks")
    assert not same(weights(attacking), plain)


def test_trained_norms_are_plain_training_with_norms_that_learn(fit: Fit) -> None:
    plain = weights(fit(Plain(model(frozen=False), contrastive()), "plain"))
    assert same(weights(fit(method("st_unfrozen"), "unfrozen")), plain)
    assert same(weights(fit(method("mdprop", epsilon=0.0), "neutral")), plain)
    assert not same(weights(fit(Plain(model(), contrastive()), "frozen")), plain)


@pytest.mark.parametrize(("name", "options"), LEARNED)
def test_resumed_training_ends_as_an_uninterrupted_one(name: str, options: dict[str, Any], fit: Fit) -> None:
    whole = weights(fit(method(name, **options), "whole", 4))
    fit(method(name, **options), "broken", 2)
    torch.manual_seed(99)
    assert same(weights(fit(method(name, seed=1, **options), "broken", 4)), whole)


def test_frozen_parts_have_frozen_norms_of_their_own(fit: Fit) -> None:
    made = method("mdprop")
    before = made.norms.sets[0][0].weight.clone()
    fit(made, "frozen", frozen=("1",))
    assert torch.equal(made.norms.sets[0][0].weight, before)
    assert not torch.equal(fit(method("mdprop"), "trained").norms.sets[0][0].weight, before)  # type: ignore[attr-defined]


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
    names = {name: {m.__name__ for m in uses(study, cell(name))} for name in ("plain", "mdprop_2+bgaugment")}
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
