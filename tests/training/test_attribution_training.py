"""Attribution regularisation in a study: without weight it trains plain's model, and attr_loss has to be given one."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from small_study import data_nodes, described, history, load

from bgbias.errors import UserError
from bgbias.nodes.train import train
from bgbias.study import plan
from bgbias.study.cell import Cell

pytestmark = pytest.mark.usefixtures("small_plugins")


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize(
    ("name", "reference"),
    [
        ("attr_loss", "plain"),
        ("attr_frac", "plain"),
        ("attr_emb", "plain"),
        ("attr_emb+bgaugment", "bgaugment"),
    ],
)
def test_weight_of_0_trains_the_same_model_bit_for_bit(
    tmp_path: Path, name: str, reference: str, precision: str
) -> None:
    """Batch norm follows the batch in these trainings: the penalty's pass must leave its statistics alone."""
    raw = described(tmp_path)
    raw["train"] |= {"precision": precision, "max_epochs": 2}
    entry = name.removesuffix("+bgaugment")
    raw["methods"] = {"off": {"kind": entry, "weight": 0}, "on": {"kind": entry, "weight": 100}}
    off, on = name.replace(entry, "off"), name.replace(entry, "on")
    block = raw["grids"]["small"]["cells"][0]
    block |= {"losses": ["contrastive"], "methods": [reference, off, on]}
    study = load(tmp_path, raw)
    data_nodes(study)
    weights, scores = {}, {}
    for method in (reference, off, on):
        cell = Cell("squares", "pixels", "contrastive", method, 0)
        train(study, cell, "cpu")
        weights[method] = load_file(study.files.at("model", **cell.wildcards))
        rows = history(study.files.at("history", **cell.wildcards))
        scores[method] = [(row["loss"], row["val_map_at_r"]) for row in rows]
        assert ("penalty" in rows[0]) == (method != reference)
    assert all(torch.equal(weights[off][k], weights[reference][k]) for k in weights[reference])
    assert scores[off] == scores[reference]
    assert not torch.equal(weights[on]["embedder.weight"], weights[reference]["embedder.weight"])


def test_attr_loss_has_no_weight_that_suits_all(tmp_path: Path) -> None:
    raw = described(tmp_path)
    raw["grids"]["small"]["cells"][0]["methods"] = ["attr_loss"]
    with pytest.raises(
        UserError, match=r"'methods\.attr_loss\.weight' is missing; it must be a number of 0 or more"
    ):
        plan.checked_cells(load(tmp_path, raw))
