"""What a grid's models are asked once they are scored: tables, attacks, attribution; and how all of it is brought together."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from small_study import data_nodes, described, load, options, record, run

from bgbias import plugins
from bgbias.cli import nodes
from bgbias.engine import freshness, graph
from bgbias.engine.forecast import forecast
from bgbias.errors import UserError
from bgbias.evaluation import embeddings
from bgbias.evaluation.metrics import names as metric_names
from bgbias.evaluation.settings import Attacked
from bgbias.nodes import attack, collect, table
from bgbias.nodes._models import fresh_model
from bgbias.report import tables
from bgbias.report.tables import attribution
from bgbias.results.rows import together
from bgbias.study import plan
from bgbias.study.cell import Cell
from bgbias.study.params import Study

pytestmark = pytest.mark.usefixtures("small_plugins")
PLAIN = Cell("squares", "pixels", "contrastive", "plain", 0)
BARE = Cell("squares", "pixels", "none", "pretrained", 0)


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """Four models, plain and cured, two seeds, and the backbone as it comes; scored and brought together. Nobody changes it."""
    folder = tmp_path_factory.mktemp("scored")
    raw = described(folder)
    raw["grids"]["small"]["cells"][0] |= {"losses": ["contrastive"], "seeds": [0, 1], "pretrained": True}
    raw["train"]["embedding_dim"] = 6
    study = load(folder, options(raw, test_classes=5))
    data_nodes(study)
    for cell in plan.cells(study):
        trained = plan.trains(study, cell)
        run(study, cell, *(("train", "embed", "score", "attribute") if trained else ("embed", "score")))
    collect.collect(study)
    return study


def test_table_3_is_made_of_the_others_and_costs(scored: Study, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UserError, match=r"table3 needs .*table1.csv \(table1\), which is missing"):
        table.table(scored, "table3")
    with pytest.raises(UserError, match=r"table1.csv is missing; make it with: snakemake"):
        table.show(scored)
    with pytest.raises(UserError, match="no table 'table4'; it has: table1, table2, table3"):
        table.table(scored, "table4")
    for name in tables.list_enabled(scored):
        table.table(scored, name)
    names = ("table1", "table2", "table3")
    first, second, third = (pd.read_csv(scored.files.at("table_csv", table=name)) for name in names)
    shared = ["method", "clean", "corrupted", "relative_drop"]
    pd.testing.assert_frame_equal(third[shared], first[shared], check_exact=True)
    assert third["ref"].dropna().tolist() == second["ref"].tolist()
    assert third["method"].tolist() == ["pretrained", "untrained", "plain", "bgaugment"]
    of_models = {cell.method: scored.files.at("embeddings", **cell.wildcards) for cell in plan.cells(scored)}
    lengths = {method: embeddings.read(file).views["clean", 0].shape[1] for method, file in of_models.items()}
    assert lengths == {"pretrained": 8, "untrained": 6, "plain": 6, "bgaugment": 6}  # 8: the backbone's own

    device = record(scored, "train_record", **PLAIN.wildcards)["device"]
    table.show(scored)
    said = capsys.readouterr().out
    shown = ("Table 1 (", "Table 3 (", "What training took", "Step, s", f"As measured on {device}")
    assert [words for words in shown if words not in said] == []


def test_bare_backbones_end_in_tables_and_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    raw = described(tmp_path)
    raw["datasets"]["toy"] = options(raw, photos=6)["datasets"]["squares"]
    block = {"datasets": ["squares", "toy"], "backbones": ["pixels"], "pretrained": True}
    raw["grids"]["small"] = {"cells": [block], "segmentation": {"episodes": 2}}
    study = load(tmp_path, raw)
    for node in graph.in_order(study):
        nodes.work(study, [node], **({"device": "cpu"} if node.name in ("embed", "segment", "masks") else {}))
    assert tables.list_enabled(study) == ("table1", "table4")
    assert freshness.lacking(freshness.examine(study)) is None
    table.show(study)
    assert "Table 1 (" in capsys.readouterr().out
    first = pd.read_csv(study.files.at("table_csv", table="table1"))
    assert first["method"].tolist() == ["pretrained", "pretrained"]
    assert first["clean"].gt(0).all()


# Attacks.

ASKED = {"attacked": Attacked(attacks=("stax", "mtax:2"), epsilon=(0, 2.0), steps=3)}
VIEWS = ["stax@0", "stax@2", "mtax:2@0", "mtax:2@2"]


@pytest.mark.parametrize("cell", [PLAIN, BARE], ids=["trained", "pretrained"])
def test_a_model_is_scored_under_every_attack(scored: Study, cell: Cell) -> None:
    study = scored.model_copy(update=ASKED)
    run(study, cell, "attack")
    files = study.files
    found = pd.read_parquet(files.at("attacked", **cell.wildcards))
    assert found["attack"].unique().tolist() == VIEWS
    queries = pd.read_parquet(files.at("queries", **cell.wildcards))
    clean = queries[(queries["condition"] == "clean") & (queries["setting"] == "symmetric")]
    values = [*metric_names(), "map_at_r_of_others"]
    for (name, setting), part in found.groupby(["attack", "setting"]):
        assert part["image_id"].tolist() == clean["image_id"].tolist()
        same = part[values].reset_index(drop=True).equals(clean[values].reset_index(drop=True))
        # Without any strength it is the clean row, bit for bit.
        assert same == str(name).endswith("@0"), (name, setting)
    assert len(found.groupby(["attack", "setting"])) == 2 * len(VIEWS)
    before = embeddings.read(files.at("embeddings", **cell.wildcards))
    metrics = pd.read_csv(files.at("attacked_metrics", **cell.wildcards))
    assert metrics["view"].tolist() == ["clean", "random_background", "random_background", *VIEWS]
    for metric in plugins.names("embedding_metrics"):
        of_embeddings = plugins.load("embedding_metrics", metric).of_embeddings
        expected = pytest.approx(of_embeddings(before.views["clean", 0], before.labels))
        by_view = metrics.groupby("view")[metric].first()
        assert by_view["clean"] == by_view["stax@0"] == by_view["mtax:2@0"] == expected
        assert by_view["stax@2"] != by_view["clean"]


def test_passes_of_attacks_are_forecast_and_a_grid_that_asks_for_none_says_so(scored: Study) -> None:
    """Of each photo: three steps there and back, two thirds of a way back each, and one look more; at epsilon 0 none."""
    test = record(scored, "index_record", dataset="squares")["metrics"]["photos_test"]
    cost = forecast(scored.model_copy(update=ASKED))["attack"]
    models, attacks = len(plan.cells(scored)), 2
    passes = models * attacks * test
    assert (cost.nodes, cost.forward, cost.backward) == (models, (4 * passes,) * 2, (2 * passes,) * 2)
    assert "attack" not in forecast(scored)
    with pytest.raises(UserError, match=r"names no attacks; set grids\.small\.attacked\.attacks"):
        attack.attack(scored, PLAIN, "cpu")


def test_tables_are_brought_together_as_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Byte for byte, also where pieces end within a cell, some seeds are words and one table has a column more."""
    monkeypatch.setattr(collect, "ROWS_A_GROUP", 1000)
    pieces, once = tmp_path / "pieces.parquet", tmp_path / "once.parquet"
    for middle in (1, "1.fold2"):
        files = []
        for number, (seed, rows) in enumerate({0: 700, middle: 1300, 2: 2000}.items()):
            images = [f"birds/{n:03d}.jpg" for n in range(rows)]
            values = np.where(np.arange(rows) % 7, np.random.default_rng(number).random(rows), np.nan)
            made = pd.DataFrame({"dataset": "birds", "seed": seed, "image_id": images, "map_at_r": values})
            if seed == middle:
                made["place"] = 1.0
            files.append(tmp_path / f"{number}.parquet")
            made.to_parquet(files[-1], index=False)
        collect.write_together(files, pieces)
        at_once = together([pd.read_parquet(file) for file in files])
        at_once.to_parquet(once, index=False, row_group_size=1000)
        assert pieces.read_bytes() == once.read_bytes()


def test_backbones_as_they_come_are_asked_where_they_look_if_a_grid_says_so(scored: Study) -> None:
    asked = scored.attribution.model_copy(update={"pretrained": True})
    study = scored.model_copy(update={"attribution": asked})
    trained = set(plan.trained_models(scored))
    for one, models in ((scored, trained), (study, trained | {BARE})):
        read = collect.depends(one).files.values()
        assert {made.node.cell for made in read if made.output == "attribution"} == models
        assert set(plan.attributed_models(one)) == models
    # Scores of trained models are what they were.
    assert graph.digest(scored, "attribute", cell=PLAIN) == graph.digest(study, "attribute", cell=PLAIN)
    run(study, BARE, "attribute")
    found = pd.read_csv(study.files.at("attribution", **BARE.wildcards)).assign(**BARE.wildcards)
    row = attribution.table(found).set_index("method").loc["pretrained"]
    assert not np.isnan(row["ref"])
    # By the features that retrieval takes, and not by a random layer on them.
    model, photos = fresh_model(study, BARE).eval(), torch.rand(2, 3, 32, 32)
    features = torch.nn.functional.normalize(model.pooled(photos))
    found = torch.nn.functional.normalize(model.embed_by_features()(photos))
    assert torch.allclose(found, features, atol=1e-6)
