"""From the scores of a grid to its tables; what training took is told from the trainings' own records alone."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from small_study import data_nodes, described, load, options, record, run

from bgbias.cli import nodes
from bgbias.compute.device import threads
from bgbias.engine import freshness, graph
from bgbias.errors import UserError
from bgbias.nodes import collect, table
from bgbias.report import costs, tables
from bgbias.study import plan
from bgbias.study.params import Study

pytestmark = pytest.mark.usefixtures("small_plugins")


@pytest.fixture
def study(tmp_path: Path) -> Study:
    """Four models: plain and cured, two seeds, and the backbone as it comes; scored."""
    raw = described(tmp_path)
    raw["grids"]["small"]["cells"][0] |= {"losses": ["contrastive"], "seeds": [0, 1], "pretrained": True}
    made = load(tmp_path, options(raw, test_classes=5))
    data_nodes(made)
    for cell in plan.cells(made):
        trained = plan.trains(made, cell)
        run(made, cell, *(("train", "embed", "score", "attribute") if trained else ("embed", "score")))
    collect.collect(made)
    return made


def test_table_3_is_made_of_the_other_tables_and_costs_of_what_training_recorded(
    study: Study, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UserError, match=r"table3 needs .*table1.csv \(table1\), which is missing"):
        table.table(study, "table3")
    for name in tables.list_enabled(study):
        table.table(study, name)
    first, second, third = (
        pd.read_csv(study.files.at("table_csv", table=name)) for name in tables.list_enabled(study)
    )
    shared = [
        "method",
        "clean",
        "corrupted",
        "relative_drop",
        "relative_drop_change",
        "relative_drop_change_p",
    ]
    pd.testing.assert_frame_equal(third[shared], first[shared], check_exact=True)
    assert third["ref"].dropna().tolist() == second["ref"].tolist()
    assert third["method"].tolist() == ["pretrained", "untrained", "plain", "bgaugment"]
    assert third["seeds"].tolist() == [1, 2, 2, 2]
    assert third["corrupted_difference_p_holm"].notna().tolist() == [False, False, False, True]

    cured = [c for c in plan.cells(study) if c.method == "bgaugment"]
    records = [record(study, "train_record", **c.wildcards) for c in cured]
    paths = {
        c: study.files.at("train_record", **c.wildcards) for c in plan.cells(study) if plan.trains(study, c)
    }
    found = costs.costs_by_model(paths, study.train.iterations_per_epoch).set_index("method")
    assert found.index.tolist() == ["plain", "bgaugment"]
    row = found.loc["bgaugment"]
    peak = max(r["peak_memory_mb"] for r in records)
    assert row["cost_memory_gb"] == pytest.approx(peak * 2**20 / 1e9)
    assert row["cost_device"] == records[0]["device"]
    epochs = [r["epoch_seconds"]["train_seconds"] for r in records]
    quickest = min(sum(e) / len(e) for e in epochs)
    assert row["cost_training_minutes"] == pytest.approx(quickest * sum(map(len, epochs)) / len(epochs) / 60)
    assert third.filter(like="cost_").empty

    table.show(study)
    said = capsys.readouterr().out
    assert all(f"{title} (" in said for title in ("Table 1", "Table 2", "Table 3"))
    assert "What training took" in said
    assert "Step, s" in said
    assert f"As measured on {records[0]['device']}" in said


def test_a_training_repeated_leaves_every_product_as_it_was(study: Study) -> None:
    cell = next(c for c in plan.cells(study) if c.method == "bgaugment")
    before = record(study, "train_record", **cell.wildcards)
    for path in before["outputs"]:
        Path(path).unlink()
    run(study, cell, "train")
    after = record(study, "train_record", **cell.wildcards)
    assert after["outputs"] == before["outputs"]
    assert len(after["epoch_seconds"]["validate_seconds"]) == after["metrics"]["epochs"]
    assert after["metrics"]["seconds_a_step"] >= 0
    assert after["notes"]["deterministic"] == "with this machine and threads"
    assert (after["threads"], bool(after["machine"])) == (threads(), True)


def test_a_table_that_was_not_made_is_named(study: Study) -> None:
    with pytest.raises(UserError, match=r"table1.csv is missing; make it with: snakemake"):
        table.show(study)
    with pytest.raises(UserError, match="no table 'table4'; it has: table1, table2, table3"):
        table.table(study, "table4")


def test_backbones_as_they_come_end_in_tables_and_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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
