"""Training by SAM: masked photos teach no batch norm, any backbone will do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from fitting import fit, same
from sam_models import FORMS, batch, method, model, triplet
from small_study import data_nodes, described, history, load, run

from bgbias import plugins, seeds
from bgbias.compute.device import autocast
from bgbias.models.model import build_model
from bgbias.study.cell import Cell
from bgbias.training.methods.plain import Method as Plain

pytestmark = pytest.mark.usefixtures("small_plugins")


@pytest.mark.parametrize("form", FORMS)
def test_frozen_batch_norm_is_not_moved_by_masked_photos(form: str, tmp_path: Path) -> None:
    made = method(form)
    before = {k: v.clone() for k, v in made.model.trunk[1].named_buffers()}
    fit(made, tmp_path, "frozen")
    assert same(dict(made.model.trunk[1].named_buffers()), before)


@pytest.mark.parametrize("form", FORMS)
def test_masked_photos_teach_no_batch_norm(form: str) -> None:
    """Of one that learns its statistics, those after a step are of the photos alone."""
    learned = []
    for gamma in (0.0, 0.25):
        module = plugins.load("methods", form)
        net = build_model(
            "pixels",
            plugins.load("backbones", "pixels").Params(),
            4,
            seeds.torch_generator("model", 0),
            False,
        ).train()
        before = {k: v.clone() for k, v in net.trunk.named_buffers()}
        module.Method(net, triplet(), module.Params(gamma=gamma)).loss(batch())["loss"].backward()
        learned.append(dict(net.trunk.named_buffers()))
        assert not same(learned[-1], before)
        assert net.trunk[1].track_running_stats
    assert same(*learned)


@pytest.mark.parametrize(
    ("backbone", "options", "size"),
    [
        ("tiny", {}, 56),
        ("resnet18", {"weights": None}, 64),
        ("timm:vit_tiny_patch16_224", {"weights": None, "img_size": 32}, 32),
    ],
)
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_any_backbone_with_a_feature_map_can_be_mined(
    backbone: str, options: dict[str, Any], size: int, precision: str
) -> None:
    module = plugins.load("methods", "sam_quad")
    made = module.Method(model(0, backbone, **options), triplet(), module.Params())
    given = batch(size=size)
    with autocast("cpu", precision):
        found = made.loss(given)
        plain = Plain(made.model, made.base_loss).loss(given)
    found["loss"].backward()
    assert torch.equal(found["base_loss"], plain["loss"])
    assert found["mining"] > 0
    assert all(p.grad is None or p.grad.isfinite().all() for p in made.model.parameters())


def test_named_options_train_a_model_of_params_yaml(tmp_path: Path) -> None:
    raw = described(tmp_path)
    raw["methods"] = {"sam_strong": {"kind": "sam_triplet", "gamma": 0.5, "score": "magnitude"}}
    study = load(tmp_path, raw)
    data_nodes(study)
    cell = Cell("squares", "pixels", "contrastive", "sam_strong+bgaugment", 0)
    run(study, cell, "train", "embed")
    rows = history(study.files.at("history", **cell.wildcards))
    for row in rows:
        parts = [float(row[name]) for name in ("loss", "base_loss", "mining")]
        assert parts[0] == pytest.approx(parts[1] + 0.5 * parts[2], rel=1e-5)
        assert parts[2] > 0
