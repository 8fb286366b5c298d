"""How many photos a method sends through the trunk is what the forecast says of it, counted where they pass."""

from __future__ import annotations

import math
from typing import Any

import dcml_models
import fitting
import pytest
from torch import Tensor, nn

pytestmark = pytest.mark.usefixtures("small_plugins")
Counts = dict[tuple[bool, bool], int]


def count(trunk: nn.Module) -> Counts:
    """Photos that go through a trunk from now on, by whether it is in training mode and whether gradients go back."""
    seen: Counts = {}

    def hook(trunk: nn.Module, given: tuple[Tensor], made: Tensor) -> None:
        key = trunk.training, made.requires_grad
        seen[key] = seen.get(key, 0) + len(made)

    trunk.register_forward_hook(hook)
    return seen


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        *((kind, {}) for kind in ("plain", "bgaugment", "sam_siamese", "sam_triplet", "sam_quad", "attr_frac", "attr_emb")),
        *(("sam_quad", options) for options in ({"anchors": 3}, {"anchors": 99}, {"gamma": 0})),
        *(("attr_loss", {"weight": 1, **more}) for more in ({}, {"photos": 3})),
        *((kind, {"photos": 3}) for kind in ("attr_frac", "attr_emb")),
        *((kind, {}) for kind in ("dcml_code", "dcml_paper", "st_unfrozen")),
        *[("at", {"epsilon": 0}), ("mdprop", {"kappa": 0})],
        *(("at", {"attacks": ["stax", "mtax:2"], "steps": steps}) for steps in (1, 3)),
        ("advprop_d", {"steps": 3}),
        *(("mdprop", {"attacks": ["stax", "mtax:2"], "steps": 3, **more}) for more in ({}, {"losses": "joint_half"})),
    ],
)  # fmt: skip
def test_photos_of_a_step_are_as_many_as_forecast(kind: str, options: dict[str, Any]) -> None:
    """Attacks, on the way back through a network in evaluation mode, make no gradient of a weight: three photos are two."""
    method = fitting.method(kind, "cosface" if kind.startswith("dcml") else "triplet", **options)
    seen = count(method.model.trunk)
    method.loss(fitting.batch())["loss"].backward()
    share = 2 / 3 if kind in ("at", "advprop_d", "mdprop") else 1
    backward = seen.get((True, True), 0) + math.ceil(seen.get((False, True), 0) * share)
    assert type(method).photos_a_step(getattr(method, "params", None), 8) == (sum(seen.values()), backward)


@pytest.mark.parametrize(
    "options",
    [{}, {"passes": 2}, {"update_every": 2}, {"weights": "random"}, {"environments": 1}],
)
@pytest.mark.parametrize("kind", dcml_models.KINDS)
def test_photos_between_epochs_are_as_many_as_forecast(kind: str, options: dict[str, Any]) -> None:
    method = dcml_models.built(kind, **options)
    seen = count(method.model.trunk)
    for epoch in range(1, 7):
        method.start_epoch(epoch, dcml_models.passes)
    found = type(method).photos_between_epochs(method.params, len(dcml_models.LABELS), 6)
    assert (sum(seen.values()), sum(n for (_, back), n in seen.items() if back)) == (found, 0)
