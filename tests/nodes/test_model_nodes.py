"""A model goes its whole way past photos that are broken, alone or without a mask; each one is counted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from small_study import data_nodes, described, load, options, record, run

from bgbias import seeds
from bgbias.errors import UserError
from bgbias.evaluation import embeddings
from bgbias.nodes import attribute, index, train
from bgbias.photos.table import read_table
from bgbias.study import plan
from bgbias.study.cell import Cell
from bgbias.study.params import Study

pytestmark = pytest.mark.usefixtures("small_plugins")


@pytest.fixture
def raw(tmp_path: Path) -> dict[str, Any]:
    return described(tmp_path)


@pytest.fixture
def spoilt(tmp_path: Path, raw: dict[str, Any]) -> Study:
    """Everything that may be wrong with photos, at once; indexed, with masks and backgrounds."""
    changed = options(
        raw,
        truncated=["00/1.png", "12/4.png"],
        without_mask=["01/0.png", "12/0.png"],
        empty_mask=["01/1.png", "13/2.png"],
        lonely=[2, 14],
    )
    study = load(tmp_path, changed)
    data_nodes(study)
    return study


@pytest.mark.parametrize(("loss", "method"), [("contrastive", "bgaugment"), ("arcface", "plain")])
def test_a_model_goes_the_whole_way_with_spoilt_photos(spoilt: Study, loss: str, method: str) -> None:
    cell = Cell("squares", "pixels", loss, method, 0)
    run(spoilt, cell, "train", "embed", "score")
    # Of the training photos one has no mask and one an empty one.
    noted = record(spoilt, "train_record", **cell.wildcards)["notes"]
    assert noted["photos_without_trusted_mask"] == (2 if method == "bgaugment" else 0)

    found = embeddings.read(spoilt.files.at("embeddings", **cell.wildcards))
    assert len(found.ids) == 4 * 5 - 1 - 4
    assert [i for i, ok in zip(found.ids, found.usable, strict=True) if not ok] == ["12/0.png", "13/2.png"]
    assert list(found.views) == [("clean", 0), ("random_background", 0), ("random_background", 1)]
    for vectors in found.views.values():
        for place in np.flatnonzero(~found.usable):  # keeps its background: the same picture in every draw
            assert np.allclose(vectors[place], found.views["clean", 0][place], atol=1e-5)
        assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    metrics = record(spoilt, "embed_record", **cell.wildcards)["metrics"]
    assert metrics == {"photos": 15, "photos_without_trusted_mask": 2}

    queries = pd.read_parquet(spoilt.files.at("queries", **cell.wildcards))
    assert not {"12/0.png", "13/2.png"} & set(queries["image_id"])
    clean = queries[queries["condition"] == "clean"]
    alone = clean["image_id"] == "14/0.png"
    assert clean.loc[alone, "map_at_r"].isna().all()  # nothing could be found
    assert clean.loc[~alone, "map_at_r"].notna().all()
    scores = pd.read_csv(spoilt.files.at("scores", **cell.wildcards))
    # Recall counts a query with nobody to find as a miss, the other metrics skip it.
    recall = scores["metric"].str.startswith("recall")
    assert (set(scores.loc[recall, "n"]), set(scores.loc[~recall, "n"])) == ({13}, {12})
    assert set(zip(scores["setting"], scores["condition"], scores["draw"], strict=True)) == {
        ("symmetric", "clean", 0),
        *(("symmetric", "random_background", draw) for draw in (0, 1)),
        *(("query", "random_background", draw) for draw in (0, 1)),
    }
    mean = scores.query("condition == 'clean' and metric == 'map_at_r'")["value"].item()
    assert mean == pytest.approx(clean.loc[~alone, "map_at_r"].mean(), abs=1e-12)


def test_attribution_counts_what_it_skips(spoilt: Study) -> None:
    pytest.importorskip("bgbias.attribution.smoothgrad")
    cell = Cell("squares", "pixels", "contrastive", "plain", 0)
    run(spoilt, cell, "train", "attribute")
    found = pd.read_csv(spoilt.files.at("attribution", **cell.wildcards))
    assert set(found["variant"]) == {"ref", "robust"}
    assert found.groupby("variant").size().tolist() == [3, 3]
    assert found["score"].isna().equals(found["skipped"].notna())


def test_row_without_training_is_the_backbones_features(spoilt: Study) -> None:
    cell = Cell("squares", "pixels", "none", "pretrained", 0)
    run(spoilt, cell, "embed", "score")
    embedded = embeddings.read(spoilt.files.at("embeddings", **cell.wildcards))
    assert {vectors.shape for vectors in embedded.views.values()} == {(15, 8)}


def test_policy_that_keeps_all_masks_replaces_behind_empty_ones_too(
    tmp_path: Path, raw: dict[str, Any], spoilt: Study
) -> None:
    study = load(tmp_path, raw | {"mask_policy": {"keep_all": True}})
    cell = Cell("squares", "pixels", "none", "pretrained", 0)
    run(study, cell, "embed")
    found = embeddings.read(study.files.at("embeddings", **cell.wildcards))
    assert [i for i, ok in zip(found.ids, found.usable, strict=True) if not ok] == ["12/0.png"]


def test_missing_input_says_what_makes_it(tmp_path: Path, raw: dict[str, Any]) -> None:
    study = load(tmp_path, raw)
    cell = Cell("squares", "pixels", "contrastive", "plain", 0)
    with pytest.raises(
        UserError, match=r"train squares/.*/seed0 needs .*images\.csv \(table\), which is missing; `snake"
    ):
        train.train(study, cell, "cpu")


def test_missing_model_of_a_cell_outside_the_grid_is_not_said_to_come_from_snakemake(
    spoilt: Study,
) -> None:
    study, cell = spoilt, next(c for c in plan.cells(spoilt) if c.method == "plain")
    with pytest.raises(
        UserError, match=r"\(model\), which is missing; `snakemake --cores all --config grid=small` makes it"
    ):
        attribute.attribute(study, cell, "cpu")
    with pytest.raises(UserError, match=r"seed7 is no cell of the grid \w+, so that .* grids\.\w+\.cells"):
        attribute.attribute(study, replace(cell, seed=7), "cpu")


def test_validation_without_a_pair_is_an_error(tmp_path: Path, raw: dict[str, Any]) -> None:
    study = load(tmp_path, options(raw, lonely=[8, 9, 10, 11]))
    index.index(study, "squares")
    with pytest.raises(UserError, match="No validation photo has another one of its class"):
        train.train(study, Cell("squares", "pixels", "contrastive", "plain", 0), "cpu")


def test_attribution_subset_is_the_same_for_every_order(tmp_path: Path, raw: dict[str, Any]) -> None:
    study = load(tmp_path, raw)
    index.index(study, "squares")
    table = read_table(study.files.at("table", dataset="squares")).split("test")
    chosen = attribute.attribution_subset(table, 7)
    assert len(chosen) == 7
    assert set(chosen.ids) < set(table.ids)
    assert attribute.attribution_subset(table, 4).ids == chosen.ids[:4]
    first = min(table.keys, key=lambda key: seeds.number(f"attribution|{key[0]}|{key[1]}"))
    assert attribute.attribution_subset(table, 1).ids == [first[1]]
    assert sorted(attribute.attribution_subset(table, None).ids) == sorted(table.ids)
