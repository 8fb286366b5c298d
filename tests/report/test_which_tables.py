"""Which grids have tables and figures, with whom models are compared, what trainings cost, and the way from photos to a table."""

from pathlib import Path
from typing import Any

import pytest
from small_study import data_nodes, described, load, options, run

from bgbias.files import json_checksum
from bgbias.nodes import collect
from bgbias.nodes import table as table_node
from bgbias.report import costs, figures, formats, tables
from bgbias.report.tables import pretrainings, shape_texture
from bgbias.study import plan
from bgbias.study.cell import Cell

pytestmark = pytest.mark.usefixtures("small_plugins")
MOCO = {"kind": "moco_v2", "epochs": 3}
PATCHES = MOCO | {"negatives": "patches"}


def test_a_grid_has_table_15_where_nothing_is_trained_and_models_differ(tmp_path: Path) -> None:
    raw = described(tmp_path)
    assert not {"table15", "table16"} & set(tables.list_enabled(load(tmp_path, raw)))
    raw["evaluation"]["conditions"] = ["clean", "random_background", "class_here", "class_there"]
    assert "table16" in tables.list_enabled(load(tmp_path, raw))
    raw["backbones"]["more_pixels"] = {"kind": "pixels"}
    (block,) = raw["grids"]["small"]["cells"]
    block |= {"pretrained": True, "losses": [], "methods": []}
    assert "table15" not in tables.list_enabled(load(tmp_path, raw))
    block["backbones"] = ["pixels", "more_pixels"]
    assert "table15" in tables.list_enabled(load(tmp_path, raw))


def pretrained(folder: Path, pretrainings: dict[str, dict[str, Any]], **block: Any) -> dict[str, Any]:
    """A study of the network as it comes, and after each pretraining, named after it."""
    raw = options(described(folder), test_classes=5, photos=3)
    raw["pretrainings"] = pretrainings
    raw["backbones"] |= {name: {"kind": "pixels", "pretraining": name} for name in pretrainings}
    raw["grids"]["small"]["cells"][0] |= {"backbones": list(raw["backbones"]), **block}
    return raw


def test_negatives_are_compared_with_the_same_pretraining_without_them(tmp_path: Path) -> None:
    of = {"moco": MOCO, "patches": PATCHES, "longer": PATCHES | {"epochs": 4}, "byol": {"kind": "byol"}}
    raw = pretrained(tmp_path, of)
    study = load(tmp_path, raw)
    found = plan.compared_backbones(study)
    expected = {"moco": "pixels", "patches": "moco", "longer": "pixels", "byol": "pixels"}
    assert {model[1]: other for model, other in found.items()} == expected
    assert len(found) == 4 * 2 * 2  # with every loss and method
    assert pretrainings.wanted(study)
    assert pretrainings.settings(study)["against"]["squares/patches/arcface/plain"] == "moco"
    assert {"all_queries", "all_attribution"} <= set(pretrainings.reads(study))
    # Where the same pretraining without negatives is of another dataset, the bare network is the next best.
    raw["datasets"]["others"] = raw["datasets"]["squares"] | {"options": {}}
    (block,) = raw["grids"]["small"]["cells"]
    of_others = block | {"backbones": ["moco"], "datasets": ["others"]}
    raw["grids"]["small"]["cells"] = [block | {"backbones": ["pixels", "patches"]}, of_others]
    found = plan.compared_backbones(load(tmp_path, raw))
    assert {(model[1], other) for model, other in found.items()} == {("patches", "pixels")}


def test_random_weights_have_all_seeds_beside_pretrained(tmp_path: Path) -> None:
    expected = {"pixels": [0, 1, 2], "moco": [0, 1, 2], "mobilenet_v2": [0]}
    raw = pretrained(tmp_path, {"moco": MOCO}, pretrained=True, seeds=[0, 1, 2])
    raw["backbones"]["mobilenet_v2"] = {"weights": "published"}
    raw["grids"]["small"]["cells"][0]["backbones"] = list(expected)
    cells = [c for c in plan.cells(load(tmp_path, raw)) if c.method == "pretrained"]
    assert {name: [c.seed for c in cells if c.backbone == name] for name in expected} == expected


def test_from_photos_to_the_table_of_shape_and_texture(tmp_path: Path) -> None:
    raw = pretrained(tmp_path, {}, pretrained=True, losses=[], methods=[])
    raw["evaluation"]["conditions"] = ["clean", "random_background", "cue_conflict"]
    small = load(tmp_path, raw)
    data_nodes(small)
    for cell in plan.cells(small):
        run(small, cell, "embed", "score")
    collect.collect(small)
    table_node.table(small, "table14")
    for row in formats.read(small.files.at("table_csv", table="table14")).to_dict("records"):
        assert row["shape"] + row["texture"] + row["neither"] == pytest.approx(100)
        assert row["chance"] == pytest.approx(100 * 2 / 13)  # 5 classes of 3 photos
        # Squares of one colour: all silhouettes are alike, and what fills them says the other class.
        assert row["texture"] > row["shape"]


def test_what_differs_in_alpha_alone_is_one_line(tmp_path: Path) -> None:
    of = {
        "bare": (MOCO, "none", 0.0, "bare"),
        "three": (PATCHES | {"alpha": 3}, "patches", 3, "bare"),
        "off": (PATCHES | {"alpha": 0}, "none", 0.0, "bare"),
        "longer": (PATCHES | {"epochs": 2}, "patches", 2.0, "longer"),
        "small": (PATCHES | {"largest": 32}, "patches 16–32", 2.0, "bare"),
        "objects": (MOCO | {"negatives": "surroundings", "alpha": 1}, "surroundings", 1, "bare"),
    }
    trained = {name: row[0] for name, row in of.items()}
    raw = pretrained(tmp_path, trained, pretrained=True, losses=[], methods=[])
    figure = figures.load("shape_share")
    without = load(tmp_path, raw)
    assert not shape_texture.wanted(without)
    assert not figure.wanted(without)
    raw["evaluation"]["conditions"] = ["clean", "random_background", "cue_conflict"]
    study = load(tmp_path, raw)
    found = shape_texture.pretraining_columns(study)
    assert {name: tuple(columns.values()) for name, columns in found.items()} == {
        name: row[1:] for name, row in of.items()
    }
    assert figure.wanted(study)
    raw["grids"]["small"]["cells"][0]["backbones"] = ["pixels", "bare"]
    assert not figure.wanted(load(tmp_path, raw))


def test_steps_take_what_all_epochs_took_in_the_least_disturbed_training(tmp_path: Path) -> None:
    """Of two trainings one stopped early on a busy machine: 2 epochs of 90 s, and 4 of 60 s in the mean."""
    alike = {"digest": "", "spec": {}, "inputs": {}, "outputs": {}, "device": "cpu (1 thread)"}
    alike |= {"peak_memory_mb": 1000.0, "metrics": {"peak_gpu_memory_mb": 2000.0}}
    trainings = {}
    for seed, seconds in enumerate(([90.0, 90.0], [30.0, 90.0, 30.0, 90.0])):
        epochs = {"train_seconds": seconds, "validate_seconds": [7.0 for _ in seconds]}
        record = trainings[Cell("toy", "tiny", "contrastive", "plain", seed)] = tmp_path / f"{seed}.json"
        json_checksum.write(record, alike | {"epoch_seconds": epochs})
    table = costs.costs_by_model(trainings, iterations=10)
    assert table["cost_device"].tolist() == ["cpu (1 thread)"]
    line = formats.plain(table, costs.COLUMNS, ()).splitlines()[-1]
    assert line.split() == ["Contrastive", "6.0", "3.0", "1.0", "2.1"]
    assert costs.training_costs({}, 10)["cost_device"] == "unknown"


def test_costs_are_passes_by_those_of_plain_training(tmp_path: Path) -> None:
    """A step of plain training: a way there and one back, which counts as two. MDProp goes there for its targets, and there and
    back to the photos (two thirds) for one step of its attack, and there and back for what comes of it.
    """
    raw = described(tmp_path)
    named = ["plain", "mdprop", "st_2xbatch"]
    raw["grids"]["small"]["cells"][0] |= {"losses": ["contrastive"], "methods": named, "pretrained": True}
    raw["train"]["batch_size"] = 12
    found = {model.rpartition("/")[2]: cost for model, cost in costs.passes(load(tmp_path, raw)).items()}
    mdprop = (1 + 1 + 1 + 1 + 2 * (1 + 2 / 3 + 1)) / 3
    assert found == pytest.approx({"plain": 1, "mdprop": mdprop, "st_2xbatch": 2})
