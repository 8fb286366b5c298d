"""How many photos a method sends through the trunk is what the forecast says of it, counted where they pass."""

from __future__ import annotations

import math
from typing import Any

import dcml_models
import fitting
import pytest
import torch
from torch import Tensor, nn

from bgbias import plugins, seeds
from bgbias.models.model import build_model
from bgbias.study import methods
from bgbias.study.training import around
from bgbias.training.methods import BaseMethod, Batch, Task

pytestmark = pytest.mark.usefixtures("small_plugins")
LABELS = torch.arange(4).repeat_interleave(2)


class Counter:
    """Photos that went forward through a trunk, and those among them that gradients go back through."""

    def __init__(self, trunk: nn.Module) -> None:
        self.forward = self.backward = 0
        trunk.register_forward_hook(self._count)

    def _count(self, trunk: nn.Module, given: tuple[Tensor], made: Tensor) -> None:
        self.forward += len(made)
        self.backward += len(made) * made.requires_grad


def batch() -> Batch:
    generator = seeds.torch_generator("photos")
    photos, others = (
        torch.randint(256, (len(LABELS), 3, 32, 32), generator=generator, dtype=torch.uint8) for _ in range(2)
    )
    masks = torch.ones(len(LABELS), 1, 32, 32)
    masks[..., :16] = 0
    return Batch(photos, LABELS, torch.arange(len(LABELS)), masks, others)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        *((kind, {}) for kind in ("plain", "bgaugment", "sam_siamese", "sam_triplet", "sam_quad", "attr_frac", "attr_emb")),
        *(("sam_quad", options) for options in ({"anchors": 3}, {"anchors": 99}, {"gamma": 0})),
        *(("attr_loss", {"weight": 1, **more}) for more in ({}, {"photos": 3})),
        *((kind, {"photos": 3}) for kind in ("attr_frac", "attr_emb")),
        *((kind, {}) for kind in ("dcml_code", "dcml_paper", "st_unfrozen")),
        *[("at", {"epsilon": 0}), ("mdprop", {"kappa": 0})],
    ],
)  # fmt: skip
def test_photos_of_a_step_are_as_many_as_forecast(kind: str, options: dict[str, Any]) -> None:
    model = build_model(
        "pixels", plugins.load("backbones", "pixels").Params(), 4, seeds.torch_generator("model")
    )
    name = "cosface" if kind.startswith("dcml") else "triplet"
    loss = plugins.load("losses", name)
    settings = {"margin": 0.2, "scale": 8, "lr": 0.1} if name == "cosface" else {"margin": 0.5}
    base = loss.build(loss.Params(**settings), 4, 4, seeds.torch_generator("loss"))
    named = methods.find({"chosen": {"kind": kind, **options}}, "chosen")
    method: BaseMethod = around(named, model, base, Task(LABELS, ("squares", 0)))
    counted = Counter(model.trunk)
    method.loss(batch())["loss"].backward()
    forecast = named.module.Method.photos_a_step(named.params(), len(LABELS))
    assert (counted.forward, counted.backward) == forecast


@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("at", {}),
        ("at", {"attacks": ["stax", "mtax:2"]}),
        ("advprop_d", {}),
        ("mdprop", {"attacks": ["stax", "mtax:2"]}),
        ("mdprop", {"attacks": ["stax", "mtax:2"], "losses": "joint_half"}),
    ],
)
def test_photos_of_attacks_are_as_many_as_forecast(kind: str, options: dict[str, Any], steps: int) -> None:
    """On the way back through a network in evaluation mode no gradient of a weight is made: three photos are two."""
    method = fitting.method(kind, steps=steps, **options)
    seen: dict[tuple[bool, bool], int] = {}

    def count(trunk: nn.Module, given: tuple[Tensor], made: Tensor) -> None:
        key = trunk.training, made.requires_grad
        seen[key] = seen.get(key, 0) + len(made)

    method.model.trunk.register_forward_hook(count)
    method.loss(fitting.batch())["loss"].backward()
    attacks = seen[False, True]
    assert set(seen) == {(True, True), (False, False), (False, True)}
    forecast = type(method).photos_a_step(method.params, 8)
    assert forecast == (sum(seen.values()), seen[True, True] + math.ceil(attacks * 2 / 3))


@pytest.mark.parametrize(
    "options",
    [{}, {"passes": 2}, {"update_every": 2}, {"weights": "random"}, {"environments": 1}],
)
@pytest.mark.parametrize("kind", dcml_models.KINDS)
def test_photos_between_epochs_are_as_many_as_forecast(kind: str, options: dict[str, Any]) -> None:
    method = dcml_models.built(kind, **options)
    counted = Counter(method.model.trunk)
    for epoch in range(1, 7):
        method.start_epoch(epoch, dcml_models.passes)
    found = type(method).photos_between_epochs(method.params, len(dcml_models.LABELS), 6)
    assert (counted.forward, counted.backward) == (found, 0)
