"""Attacks on a model's test photos as a node: what it writes, what changes nothing, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from small_study import data_nodes, described, load, record, run

from bgbias import plugins
from bgbias.engine.forecast import forecast
from bgbias.errors import UserError
from bgbias.evaluation import embeddings
from bgbias.evaluation.metrics import names as metric_names
from bgbias.nodes import attack
from bgbias.study.cell import Cell

PLAIN = Cell("squares", "pixels", "contrastive", "plain", 0)
BEFORE = Cell("squares", "pixels", "none", "pretrained", 0)
ASKED = {"attacks": ["stax", "mtax:2"], "epsilon": [0, 2.0], "steps": 3}
VIEWS = ["stax@0", "stax@2", "mtax:2@0", "mtax:2@2"]
KEYS = ["setting", "image_id", "label"]


@pytest.fixture
def raw(tmp_path: Path) -> dict[str, Any]:
    raw = described(tmp_path)
    raw["grids"]["small"]["cells"][0] |= {"pretrained": True, "methods": ["plain"], "losses": ["contrastive"]}
    return raw | {"attacked": ASKED}


@pytest.mark.parametrize("cell", [PLAIN, BEFORE], ids=["trained", "pretrained"])
def test_a_model_is_scored_under_every_attack(tmp_path: Path, raw: dict[str, Any], cell: Cell) -> None:
    study = load(tmp_path, raw)
    data_nodes(study)
    run(study, cell, *(["train"] if cell == PLAIN else []), "embed", "score", "attack")
    files = study.files
    found = pd.read_parquet(files.at("attacked", **cell.wildcards))
    assert found["attack"].unique().tolist() == VIEWS
    queries = pd.read_parquet(files.at("queries", **cell.wildcards))
    clean = queries[(queries["condition"] == "clean") & (queries["setting"] == "symmetric")]
    values = [*metric_names(), "map_at_r_of_others"]
    for name, own in found.groupby("attack"):
        assert set(own["setting"]) == {"symmetric", "query"}
        for setting, part in own.groupby("setting"):
            assert part["image_id"].tolist() == clean["image_id"].tolist()
            same = part[values].reset_index(drop=True).equals(clean[values].reset_index(drop=True))
            # Without any strength it is the clean row, bit for bit.
            assert same == str(name).endswith("@0"), (name, setting)
    before = embeddings.read(files.at("embeddings", **cell.wildcards))
    metrics = pd.read_csv(files.at("attacked_metrics", **cell.wildcards))
    assert metrics["view"].tolist() == ["clean", "random_background", "random_background", *VIEWS]
    for metric in plugins.names("embedding_metrics"):
        told = plugins.load("embedding_metrics", metric).of_embeddings(
            before.views["clean", 0], before.labels
        )
        by_view = metrics.groupby("view")[metric].first()
        assert by_view["clean"] == by_view["stax@0"] == by_view["mtax:2@0"] == pytest.approx(told)
        assert by_view["stax@2"] != by_view["clean"]
    assert {"map_at_r_stax_2", "precision_at_1_mtax_2_2"} <= record(study, "attack_record", **cell.wildcards)[
        "metrics"
    ].keys()


def test_its_passes_are_forecast(tmp_path: Path, raw: dict[str, Any]) -> None:
    """Of each photo: three steps there and back, two thirds of a way back each, and one look more; at epsilon 0 none."""
    study = load(tmp_path, raw)
    data_nodes(study)
    test = record(study, "index_record", dataset="squares")["metrics"]["photos_test"]
    cost = forecast(study)["attack"]
    models, attacks = 3, 2
    assert cost.nodes == models
    assert cost.forward == (models * attacks * 4 * test,) * 2
    assert cost.backward == (models * attacks * 2 * test,) * 2


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"attacks": ["stacks"]}, r"attacked\.attacks: 'stacks' \(did you mean 'stax'\?\)"),
        ({"attacks": ["mtax"]}, "needs the number of targets behind a colon"),
        ({"attacks": ["mtax:1"]}, "'mtax:1' in attacks"),
        ({"attacks": ["stax", "stax"]}, "named twice"),
        ({"attacks": ["stax"], "epsilon": [0.1, 0.1]}, "named twice"),
        ({"attacks": ["stax"], "epsilon": []}, r"attacked\.epsilon"),
        ({"attacks": ["stax"], "epsilon": [-0.1]}, r"attacked\.epsilon"),
        ({"attacks": ["stax"], "step": 2}, r"attacked\.step"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_runs(
    tmp_path: Path, raw: dict[str, Any], asked: dict[str, Any], said: str
) -> None:
    with pytest.raises(UserError, match=said):
        load(tmp_path, raw | {"attacked": asked})


def test_a_grid_that_asks_for_none_says_so(tmp_path: Path, raw: dict[str, Any]) -> None:
    study = load(tmp_path, raw | {"attacked": {}})
    with pytest.raises(UserError, match=r"names no attacks; set grids\.small\.attacked\.attacks"):
        attack.attack(study, PLAIN, "cpu")
    assert "attack" not in forecast(study)
