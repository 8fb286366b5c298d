"""The published numbers that our tables set beside our own."""

import numpy as np
import pandas as pd
import pytest
from project import ROOT

from bgbias import plugins
from bgbias.errors import UserError
from bgbias.photos import folds
from bgbias.results import published
from bgbias.results.uncertainty import relative_drop
from bgbias.study import params
from bgbias.study.cell import side_by_side


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    return published.read(ROOT / "data/published")


def test_every_cell_of_the_background_papers_two_tables_is_there_once(rows: pd.DataFrame) -> None:
    found = rows[rows["source"].str.startswith("Kobs")].set_index(list(published.KEYS))
    # 3 datasets x 5 losses x 2 methods: MAP@R clean and corrupted, and the attribution score.
    assert len(found) == 90
    assert found.index.is_unique
    assert (found["differs"] == "").all()
    # The paper's starkest cell: contrastive on SOP loses nine tenths.
    cell = ("sop", "bn_inception", "contrastive", "plain", "map_at_r")
    clean, corrupted = (found.loc[(*cell, c), "value"] for c in ("clean", "random_background"))
    assert round(float(relative_drop(np.array(clean), np.array(corrupted))), 3) == 0.890


def test_every_number_is_of_a_cell_that_a_grid_can_name(rows: pd.DataFrame) -> None:
    study = params.read(ROOT / "params.yaml")
    assert set(rows["dataset"]) <= study["datasets"].keys()
    assert set(rows["backbone"]) <= set(plugins.names("backbones"))
    assert set(rows["loss"]) <= {*plugins.names("losses"), "none"}
    split = [side_by_side(name) for name in rows["method"]]
    assert {alone for alone, _ in split} <= {*plugins.names("methods"), *study["methods"]}
    # DCML's paper and ours: four folds of 128 dimensions.
    assert {length for _, length in split} == {"", str(folds.FOLDS * study["train"]["embedding_dim"])}
    assert set(rows.loc[[bool(length) for _, length in split], "folds"]) == {folds.FOLDS}
    assert set(rows["metric"]) <= {
        *plugins.names("metrics"),
        *plugins.names("embedding_metrics"),
        "attribution_score",
    }
    assert not rows.duplicated([*published.KEYS, "differs", "folds"]).any()


@pytest.mark.parametrize(
    ("cell", "of_folds", "value", "told"),
    [
        # DCML's four models side by side: 512 dimensions.
        ("bn_inception cosface dcml_no_envs+512d map_at_r", 1, 26.56, "unit length"),
        # SAM's Table II.
        ("resnet50 quadruplet sam_quad precision_at_1", 1, 66.4, "embedding size"),
        # The mean of four models beside the mean of four models, of a method as it was released.
        ("bn_inception cosface dcml_code map_at_r", 4, 22.61, "batch norm before the embedding layer"),
        # Two papers have this cell, one of four folds, one of the dataset's own split: that of the same protocol.
        ("bn_inception contrastive plain map_at_r", 1, 20.27, ""),
        ("bn_inception contrastive plain map_at_r", 2, 20.27, "one split"),
        ("bn_inception contrastive plain map_at_r", 4, 21.18, ""),
    ],
)
def test_numbers_of_papers_say_what_differs(
    rows: pd.DataFrame, cell: str, of_folds: int, value: float, told: str
) -> None:
    found = published.number(rows, "cub200", *cell.split(), "clean", folds=of_folds)
    assert (found.value, bool(found.differs)) == (value, bool(told))
    assert told in found.differs


def test_no_number_where_no_paper_has_one_and_two_for_one_cell_are_refused(rows: pd.DataFrame) -> None:
    cell = ("bn_inception", "cosface", "dcml_code", "map_at_r", "clean")
    assert published.number(rows, "cub50", *cell) is published.NOTHING
    with pytest.raises(UserError, match=r"2 rows for cub200 bn_inception cosface dcml_code map_at_r clean"):
        published.number(pd.concat([rows, rows]), "cub200", *cell)
