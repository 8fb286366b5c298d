"""Data nodes make the same files every time, and count what they leave out."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from small_study import data_nodes, described, load, options, outputs, record

from bgbias import images
from bgbias.errors import UserError
from bgbias.image_table import read as read_table
from bgbias.nodes import data
from bgbias.store import ImageStore

pytestmark = pytest.mark.usefixtures("small_plugins")


@pytest.fixture
def raw(tmp_path: Path) -> dict[str, Any]:
    return described(tmp_path)


def test_data_nodes_give_the_same_bytes_every_time(tmp_path: Path, raw: dict[str, Any]) -> None:
    study = load(tmp_path, raw)
    data_nodes(study)
    first = outputs(study)
    assert len(first) == 10
    data_nodes(study)
    assert outputs(study) == first
    shutil.rmtree(study.paths.work)
    data_nodes(study)
    assert outputs(study) == first


def test_folder_is_fetched_and_indexed_to_the_same_bytes(tmp_path: Path, raw: dict[str, Any]) -> None:
    for c in range(6):
        for n in range(2):
            path = tmp_path / "mine" / f"class{c}" / f"{n}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(images.encode_png(np.full((8, 9, 3), 10 * c + n, np.uint8)))
    mine = {"kind": "folder", "options": {"source": str(tmp_path / "mine")}}
    raw["datasets"]["mine"] = raw["datasets"]["squares"] | mine
    study = load(tmp_path, raw)
    archive = study.files.at("archive", dataset="mine")
    seen = []
    for _ in range(2):
        data.fetch(study, "mine")
        data.index(study, "mine")
        seen.append((archive.read_bytes(), outputs(study)))
    assert seen[0] == seen[1]
    found = record(study, "index_record", dataset="mine")["metrics"]
    assert (found["photos"], found["classes"], found["excluded"]) == (12, 6, 0)


def test_index_is_sorted_by_class_and_name_and_counted(tmp_path: Path, raw: dict[str, Any]) -> None:
    study = load(tmp_path, raw)
    data.index(study, "squares")
    table = read_table(study.files.at("table", dataset="squares"))
    assert table.ids == sorted(table.ids)
    assert ImageStore(study.files.at("photos", dataset="squares")).ids == table.ids
    counts = record(study, "index_record", dataset="squares")["metrics"]
    assert counts == {
        "photos": 80, "classes": 16, "excluded": 0, "photos_train": 40, "classes_train": 8,
        "photos_val": 20, "classes_val": 4, "photos_test": 20, "classes_test": 4,
    }  # fmt: skip


def test_truncated_photo_is_left_out_listed_and_counted(tmp_path: Path, raw: dict[str, Any]) -> None:
    study = load(tmp_path, options(raw, truncated=["00/1.png", "13/0.png"]))
    data.index(study, "squares")
    table = read_table(study.files.at("table", dataset="squares"))
    assert len(table) == 78
    assert not {"00/1.png", "13/0.png"} & set(table.ids)
    excluded = pd.read_csv(study.files.at("excluded", dataset="squares"))
    assert excluded["image_id"].tolist() == ["00/1.png", "13/0.png"]
    assert excluded["reason"].str.contains("cannot be decoded").all()
    assert record(study, "index_record", dataset="squares")["metrics"]["excluded"] == 2


def test_dataset_without_a_readable_photo_is_an_error_that_leaves_nothing(
    tmp_path: Path, raw: dict[str, Any]
) -> None:
    every = [f"{c:02d}/0.png" for c in range(3)]
    study = load(
        tmp_path, options(raw, train_classes=1, val_classes=1, test_classes=1, photos=1, truncated=every)
    )
    with pytest.raises(UserError, match=r"squares has no readable photo \(3 were left out\)"):
        data.index(study, "squares")
    assert outputs(study) == {}
