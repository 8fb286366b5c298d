"""A backbone's name in params.yaml may be one of its own: its kind says which file it is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from small_study import data_nodes, described, load, record, run

from bgbias import plugins
from bgbias.engine import checks, graph
from bgbias.errors import UserError
from bgbias.evaluation import embeddings
from bgbias.models import backbones
from bgbias.models import model as models
from bgbias.nodes._models import fresh_model
from bgbias.study import plan
from bgbias.study.cell import Cell

pytestmark = pytest.mark.usefixtures("small_plugins")

NAME = "from_elsewhere"


@pytest.fixture
def raw(tmp_path: Path) -> dict[str, Any]:
    """A backbone of the study's own file under a name of its own."""
    found = described(tmp_path)
    found["backbones"][NAME] = {"kind": "pixels"}
    found["grids"]["small"]["cells"][0]["backbones"] = ["pixels", NAME]
    return found


def test_a_model_of_such_a_backbone_is_trained_and_loaded_by_its_kind(
    tmp_path: Path, raw: dict[str, Any]
) -> None:
    study = load(tmp_path, raw)
    data_nodes(study)
    cell = Cell("squares", NAME, "contrastive", "plain", 0)
    run(study, cell, "train", "embed")
    trained = models.load(study.files.at("model", **cell.wildcards))
    assert trained.backbone == "pixels"
    assert embeddings.read(study.files.at("embeddings", **cell.wildcards)).views
    assert record(study, "train_record", **cell.wildcards)["spec"]["backbone"] == {"kind": "pixels"}
    # The code of its kind is what its nodes work by.
    spec, code = (graph.spec(study, "train", cell=c) for c in (cell, replace(cell, backbone="pixels")))
    assert spec["code"] == code["code"]


def test_names_that_mean_two_things_or_nothing_are_refused(tmp_path: Path, raw: dict[str, Any]) -> None:
    raw["backbones"]["tiny"] = {"kind": "pixels"}
    with pytest.raises(
        UserError, match=r"backbones\.tiny is of kind 'pixels', but 'tiny' is a backbone itself"
    ):
        load(tmp_path, raw)
    del raw["backbones"]["tiny"]
    raw["backbones"][NAME] = {"kind": "pixels", "wieghts": "w.pth"}
    with pytest.raises(UserError, match=rf"backbones\.{NAME}.*wieghts"):
        load(tmp_path, raw)
    raw["backbones"][NAME] = {"kind": "pixel"}
    study = load(tmp_path, raw)
    with pytest.raises(UserError, match=r"pixels"):
        plan.check_cell(study, Cell("squares", NAME, "contrastive", "plain", 0))
    with pytest.raises(UserError, match=r"params\.yaml has no backbone 'nobody'; there are: pixels"):
        plan.backbone(study, "nobody")
    raw["backbones"]["forgot"] = {"weights": None}
    with pytest.raises(UserError, match=r"backbones\.forgot: .*needs a `kind`"):
        plan.backbone(load(tmp_path, raw), "forgot").params()


def test_variants_and_weights_are_found_by_its_kind(tmp_path: Path, raw: dict[str, Any]) -> None:
    raw["backbones"]["small_vit"] = {"kind": "timm:vit_tiny_patch16_224", "weights": None, "img_size": 64}
    mobile = plugins.load("backbones", "mobilenet_v2")
    trunk = mobile.build(mobile.Params(weights=None))
    save_file(trunk.state_dict(), tmp_path / "own.safetensors")
    raw["backbones"]["own_mobile"] = {"kind": "mobilenet_v2", "weights": str(tmp_path / "own.safetensors")}
    study = load(tmp_path, raw)
    vit, own = (plan.backbone(study, name) for name in ("small_vit", "own_mobile"))
    assert (vit.variant, backbones.facts(vit.kind, vit.params()).input_size) == ("vit_tiny_patch16_224", 64)
    found = fresh_model(study, Cell("squares", "own_mobile", "contrastive", "plain", 0))
    assert own.kind == found.backbone == "mobilenet_v2"
    assert torch.equal(next(found.trunk.parameters()), next(trunk.parameters()))


def test_an_entry_of_another_kind_is_checked_again(tmp_path: Path, raw: dict[str, Any]) -> None:
    """Weights that fitted the one are not taken for the other's."""
    mobile = plugins.load("backbones", "mobilenet_v2")
    save_file(mobile.build(mobile.Params(weights=None)).state_dict(), tmp_path / "own.safetensors")
    raw["grids"]["small"]["cells"][0]["backbones"] = ["own"]
    raw["backbones"]["own"] = {"kind": "mobilenet_v2", "weights": str(tmp_path / "own.safetensors")}
    checks.check(load(tmp_path, raw))
    raw["backbones"]["own"]["kind"] = "resnet18"
    with pytest.raises(UserError, match=r"own\.safetensors"):
        checks.check(load(tmp_path, raw))
