"""A backbone's name in params.yaml may be one of its own: its kind says which file it is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from small_study import data_nodes, described, load, run

from bgbias.engine import graph
from bgbias.errors import UserError
from bgbias.models import model as models
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
    run(study, cell, "train")
    assert models.load(study.files.at("model", **cell.wildcards)).backbone == "pixels"
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
