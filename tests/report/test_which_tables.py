"""Which grids have tables, figures and comparisons, and the way from photos to those that need more than a trained model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from small_study import data_nodes, described, load, options, run

from bgbias.nodes import collect
from bgbias.nodes import table as table_node
from bgbias.report import figures, formats, tables
from bgbias.report.tables import pretrainings, shape_texture
from bgbias.study import plan
from bgbias.study.params import Study

pytestmark = pytest.mark.usefixtures("small_plugins")


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


def test_negatives_are_compared_with_the_same_pretraining_without_them(tmp_path: Path) -> None:
    raw = described(tmp_path)
    raw["pretrainings"] = {
        "moco": {"kind": "moco_v2", "epochs": 3},
        "patches": {"kind": "moco_v2", "epochs": 3, "negatives": "patches", "alpha": 3},
        "longer": {"kind": "moco_v2", "epochs": 4, "negatives": "patches"},
        "byol": {"kind": "byol", "epochs": 3},
    }
    raw["backbones"] |= {name: {"kind": "pixels", "pretraining": name} for name in raw["pretrainings"]}
    block = raw["grids"]["small"]["cells"][0]
    block["backbones"] = list(raw["backbones"])
    study = load(tmp_path, raw)
    expected = {"moco": "pixels", "patches": "moco", "longer": "pixels", "byol": "pixels"}
    found = plan.compared_backbones(study)
    assert {model[1]: other for model, other in found.items()} == expected
    assert len(found) == 4 * 2 * 2  # with every loss and method
    assert pretrainings.wanted(study)
    assert pretrainings.settings(study)["against"]["squares/patches/arcface/plain"] == "moco"
    assert {"all_queries", "all_attribution"} <= set(pretrainings.reads(study))
    block["backbones"] = ["moco", "byol"]
    assert not pretrainings.wanted(load(tmp_path, raw))
    # Where the same pretraining without negatives is of another dataset, the bare network is the next best.
    raw["datasets"]["others"] = raw["datasets"]["squares"] | {"options": {}}
    apart = [block | {"backbones": ["pixels"]}, block | {"backbones": ["moco"], "datasets": ["others"]}]
    raw["grids"]["small"]["cells"] = apart
    assert plan.compared_backbones(load(tmp_path, raw)) == {}
    raw["grids"]["small"]["cells"] = [*apart, block | {"backbones": ["patches"]}]
    found = plan.compared_backbones(load(tmp_path, raw))
    assert {(model[1], other) for model, other in found.items()} == {("patches", "pixels")}


def test_random_weights_are_drawn_by_every_seed_where_pretrained_ones_stand_beside_them(
    tmp_path: Path,
) -> None:
    raw = described(tmp_path)
    raw["pretrainings"] = {"moco": {"kind": "moco_v2"}}
    raw["backbones"]["moco"] = {"kind": "pixels", "pretraining": "moco"}
    raw["backbones"]["mobilenet_v2"] = {"weights": "published"}
    block = raw["grids"]["small"]["cells"][0]
    block |= {"backbones": ["pixels", "moco", "mobilenet_v2"], "pretrained": True, "seeds": [0, 1, 2]}

    def seeds(backbone: str) -> list[int]:
        cells = plan.cells(load(tmp_path, raw))
        return [c.seed for c in cells if (c.backbone, c.method) == (backbone, "pretrained")]

    assert seeds("pixels") == seeds("moco") == [0, 1, 2]
    assert seeds("mobilenet_v2") == [0]
    block["backbones"] = ["pixels"]
    assert seeds("pixels") == [0]


# -- shape and texture ------------------------------------------------------------------------------------------------


def with_alphas(
    folder: Path, conditions: tuple[str, ...] = ("cue_conflict",), **more: dict[str, Any]
) -> Study:
    """A network as it comes and after a short pretraining with several alphas; ``more``: other pretrainings."""
    raw = options(described(folder), test_classes=5, photos=3)
    moco = {"kind": "moco_v2", "epochs": 1, "batch_size": 6, "queue": 6, "dim": 4}
    patches = moco | {"negatives": "patches"}
    own = {"bare": moco, "three": patches | {"alpha": 3}} | more
    raw["pretrainings"] = own
    raw["backbones"] |= {name: {"kind": "pixels", "pretraining": name} for name in own}
    block = {"datasets": ["squares"], "backbones": ["pixels", *own], "pretrained": True, "seeds": [0]}
    raw["grids"]["small"]["cells"] = [block]
    raw["evaluation"]["conditions"] = ["clean", "random_background", *conditions]
    return load(folder, raw)


def test_from_photos_to_the_table_of_shape_and_texture(tmp_path: Path) -> None:
    raw = options(described(tmp_path), test_classes=5, photos=3)
    block = {"datasets": ["squares"], "backbones": ["pixels"], "pretrained": True, "seeds": [0]}
    raw["grids"]["small"]["cells"] = [block]
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
    moco = {"kind": "moco_v2", "epochs": 1, "batch_size": 6, "queue": 6, "dim": 4, "negatives": "patches"}
    more = {
        "off": moco | {"alpha": 0},
        "longer": moco | {"epochs": 2},
        "small": moco | {"largest": 32},
        "objects": moco | {"negatives": "surroundings", "alpha": 1},
    }
    made = with_alphas(tmp_path, **more)
    found = shape_texture.pretraining_columns(made)
    assert {name: tuple(of.values()) for name, of in found.items()} == {
        "bare": ("none", 0.0, "bare"),
        "three": ("patches", 3, "bare"),
        "off": ("none", 0.0, "bare"),
        "longer": ("patches", 2.0, "longer"),
        "small": ("patches 16–32", 2.0, "bare"),
        "objects": ("surroundings", 1, "bare"),
    }
    assert figures.load("shape_share").wanted(made)
    assert not figures.load("shape_share").wanted(with_alphas(tmp_path, conditions=()))
    assert not shape_texture.wanted(with_alphas(tmp_path, conditions=()))
    fixed = {"bare": moco, "three": moco}
    assert not figures.load("shape_share").wanted(with_alphas(tmp_path, **fixed))
