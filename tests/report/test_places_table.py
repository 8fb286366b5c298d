"""Table 16: another place, composites, and what the background carries, of a study whose table says places."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from caption_studies import selected
from small_study import described, load, run
from two_visits import CLASSES, EACH, make

from bgbias.errors import UserError
from bgbias.nodes import backgrounds, fetch, index, masks
from bgbias.photos.table import read_table
from bgbias.report import formats, tables
from bgbias.report.tables import places
from bgbias.study.cell import Cell
from bgbias.study.params import Study

CELL = Cell("shop", "pixels", "none", "pretrained", 0)


@pytest.fixture
def study(tmp_path: Path) -> Study:
    """An untrained network on the photos of two visits, which a table names."""
    shop = tmp_path / "shop"
    make(shop)
    files = sorted((shop / "photos").rglob("*.png"))
    pd.DataFrame(
        {
            "image": [file.relative_to(shop) for file in files],
            "mask": [shop.joinpath("masks", *file.parts[-3:]).relative_to(shop) for file in files],
            "label": [file.parts[-2] for file in files],
            "place": [file.parts[-3] for file in files],
            "split": "test",
        }
    ).to_csv(shop / "photos.csv", index=False)
    raw = described(tmp_path)
    options = {"source": str(shop / "photos.csv"), "masks": True}
    raw["datasets"] = {"shop": raw["datasets"]["squares"] | {"kind": "table", "options": options}}
    raw["evaluation"]["conditions"] = ["clean", "random_background", "class_here", "class_there"]
    cells = {"datasets": ["shop"], "backbones": ["pixels"], "pretrained": True, "methods": [], "seeds": []}
    raw["grids"] = {"small": {"cells": [cells]}}
    return load(tmp_path, raw)


@pytest.mark.usefixtures("small_plugins")
def test_a_study_says_what_another_place_costs(study: Study) -> None:
    assert "table16" in tables.list_enabled(study)
    for part in ("table", "photos"):
        fetch.fetch(study, "shop", part)
    index.index(study, "shop")
    masks.masks(study, "shop")
    backgrounds.backgrounds(study, "noise")
    assert set(read_table(study.files.at("table", dataset="shop")).places or ()) == {"visit 0", "visit 1"}
    run(study, CELL, "embed", "score")
    queries = pd.read_parquet(study.files.at("queries", **CELL.wildcards))
    (row,) = places.table(queries).to_dict("records")
    assert (row["queries"], row["classes"]) == (2 * CLASSES * EACH, CLASSES)
    assert row["natural_low"] > 0
    assert row["natural"] == pytest.approx(100 * (1 - row["there"] / row["here"]))
    assert row["carried_low"] < row["carried"] < row["carried_high"]
    printed = formats.markdown(
        places.table(queries), "table16", places.caption(selected(), places.table(queries), {})
    )
    assert "What another place costs" in printed
    with pytest.raises(UserError, match="No dataset of the grid has a class that was seen in two places"):
        places.table(queries[~queries["setting"].str.contains("place")])


@pytest.mark.usefixtures("small_plugins")
def test_only_a_grid_that_asks_for_it_has_the_table(tmp_path: Path) -> None:
    assert "table16" not in tables.list_enabled(load(tmp_path, described(tmp_path)))
