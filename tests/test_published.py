"""The published numbers that our tables set beside our own."""

from __future__ import annotations

import pandas as pd
import pytest
import yaml
from project import ROOT

from bgbias import plugins, published
from bgbias.errors import UserError
from bgbias.statistics import drop

FOLDER = ROOT / "data" / "published"


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    return published.read(FOLDER)


def test_every_cell_of_the_background_papers_two_tables_is_there_once(rows: pd.DataFrame) -> None:
    found = rows[rows["source"].str.startswith("Kobs")].set_index(list(published.CELL))
    # 3 datasets x 5 losses x 2 methods: MAP@R clean and corrupted, and the attribution score.
    assert len(found) == 90
    assert found.index.is_unique
    assert (found["differs"] == "").all()
    # The paper's starkest cell: contrastive on SOP loses nine tenths.
    cell = ("sop", "bn_inception", "contrastive", "plain", "map_at_r")
    clean, corrupted = (found.loc[(*cell, c), "value"] for c in ("clean", "random_background"))
    assert round(drop(clean, corrupted).relative, 3) == 0.890


def test_every_number_is_of_a_cell_that_a_grid_can_name(rows: pd.DataFrame) -> None:
    study = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))
    assert set(rows["dataset"]) <= study["datasets"].keys()
    assert set(rows["backbone"]) <= set(plugins.names("backbones"))
    assert set(rows["loss"]) <= {*plugins.names("losses"), "none"}
    assert set(rows["method"]) <= {*plugins.names("methods"), *study["methods"]}
    assert set(rows["metric"]) <= {*plugins.names("metrics"), "attribution_score"}
    assert not rows.duplicated([*published.CELL, "differs"]).any()


@pytest.mark.parametrize(
    ("cell", "value", "told"),
    [
        # DCML's Tables 1 to 3, 128 dimensions; 4 to 7 have 512.
        (("cub200", "bn_inception", "cosface", "dcml_code", "map_at_r"), 22.61, "mean of four models"),
        (("cars196", "bn_inception", "cosface", "dcml_cars", "precision_at_1"), 78.58, "mean of four models"),
        (("cub200", "bn_inception", "cosface", "plain", "r_precision"), 31.99, "mean of four models"),
        (("cub200", "bn_inception", "cosface", "dcml_no_envs", "map_at_r"), 26.56, "512 dimensions"),
        (("cub200", "bn_inception", "cosface", "dcml_k15", "precision_at_1"), 69.10, "512 dimensions"),
        # SAM's Table II.
        (("cub200", "resnet50", "quadruplet", "sam_quad", "precision_at_1"), 66.4, "embedding size"),
        (("sop", "resnet50", "triplet", "sam_triplet", "precision_at_1"), 77.9, "embedding size"),
        # Where both papers have the cell, that of the same protocol.
        (("cub200", "bn_inception", "contrastive", "plain", "map_at_r"), 20.27, ""),
        (("cub200", "bn_inception", "contrastive", "plain", "precision_at_1"), 59.73, "mean of four models"),
    ],
)
def test_numbers_of_other_papers_say_what_differs(
    rows: pd.DataFrame, cell: tuple[str, ...], value: float, told: str
) -> None:
    found = published.number(rows, *cell, "clean")
    assert found.value == value
    assert told in found.differs
    assert bool(found.differs) == bool(told)


def test_no_number_where_no_paper_has_one(rows: pd.DataFrame) -> None:
    cell = ("cub50", "bn_inception", "contrastive", "plain", "map_at_r", "clean")
    assert published.number(rows, *cell) is published.NOTHING


def test_two_numbers_for_one_cell_are_refused(rows: pd.DataFrame) -> None:
    with pytest.raises(UserError, match=r"2 rows for cub200 bn_inception cosface dcml_code map_at_r clean"):
        published.number(
            pd.concat([rows, rows]), "cub200", "bn_inception", "cosface", "dcml_code", "map_at_r", "clean"
        )
