"""Data nodes make the same files every time, and count what they leave out."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import miniatures
import numpy as np
import pandas as pd
import pytest
from small_study import data_nodes, described, load, options, outputs, record

from bgbias.cli.nodes import meant, work
from bgbias.errors import UserError
from bgbias.files.fingerprint import fingerprint
from bgbias.files.store import ImageStore
from bgbias.images import pixels
from bgbias.nodes import fetch, index, masks
from bgbias.photos.table import read_table

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
            path.write_bytes(pixels.encode_png(np.full((8, 9, 3), 10 * c + n, np.uint8)))
    mine = {"kind": "folder", "options": {"source": str(tmp_path / "mine")}}
    raw["datasets"]["mine"] = raw["datasets"]["squares"] | mine
    study = load(tmp_path, raw)
    archive = study.files.at("part", dataset="mine", part="photos")
    seen = []
    for _ in range(2):
        fetch.fetch(study, "mine", "photos")
        index.index(study, "mine")
        seen.append((archive.read_bytes(), outputs(study)))
    assert seen[0] == seen[1]
    found = record(study, "index_record", dataset="mine")["metrics"]
    assert (found["photos"], found["classes"], found["excluded"]) == (12, 6, 0)


def test_index_is_sorted_by_class_and_name_and_counted(tmp_path: Path, raw: dict[str, Any]) -> None:
    study = load(tmp_path, raw)
    index.index(study, "squares")
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
    index.index(study, "squares")
    table = read_table(study.files.at("table", dataset="squares"))
    assert len(table) == 78
    assert not {"00/1.png", "13/0.png"} & set(table.ids)
    excluded = pd.read_csv(study.files.at("excluded", dataset="squares"))
    assert excluded["image_id"].tolist() == ["00/1.png", "13/0.png"]
    assert excluded["reason"].str.contains("cannot be decoded").all()
    assert record(study, "index_record", dataset="squares")["metrics"]["excluded"] == 2


def test_one_broken_photo_among_thousands_is_named_and_counted(tmp_path: Path, raw: dict[str, Any]) -> None:
    files = dict(miniatures.cub_files())
    name = "CUB_200_2011/images/123.Bird_122/Bird_122_0007.jpg"
    files[name] = files[name][:100]
    archive = miniatures.as_zip(tmp_path / "cub.zip", files)
    raw["datasets"]["birds"] = raw["datasets"]["squares"] | {
        "kind": "cub200",
        "options": {"source": str(archive)},
    }
    study = load(tmp_path, raw)
    work(study, meant(study, "fetch", dataset="birds"))
    index.index(study, "birds")
    found = record(study, "index_record", dataset="birds")["metrics"]
    assert (found["photos"], found["excluded"], found["photos_test"]) == (11_787, 1, 5_923)
    excluded = pd.read_csv(study.files.at("excluded", dataset="birds"))
    assert excluded["image_id"].tolist() == ["123.Bird_122/Bird_122_0007.jpg"]
    # The other photos of the split keep their backgrounds.
    table = read_table(study.files.at("table", dataset="birds")).split("test")
    assert set(range(5_924)) - {int(key) for _, key in table.keys} == {
        [n for n in files if n.endswith(".jpg")].index(name) - 5_864
    }


def test_index_alone_does_not_read_what_was_fetched_before_an_edit(
    tmp_path: Path, raw: dict[str, Any]
) -> None:
    pixel = pixels.encode_png(np.full((8, 8, 3), 9, np.uint8))
    miniatures.as_folder(tmp_path / "mine", {f"{c}/{n}.png": pixel for c in range(5) for n in range(2)})
    options = {"source": f"{tmp_path}/mine"}
    raw["datasets"]["mine"] = raw["datasets"]["squares"] | {"kind": "folder", "options": options}
    study = load(tmp_path, raw)
    work(study, meant(study, "fetch", dataset="mine"))
    (tmp_path / "mine" / "4" / "2.png").write_bytes(pixel)
    fingerprint.cache_clear()
    with pytest.raises(
        UserError,
        match=r"has changed since it was fetched; run: python -m bgbias fetch --params \S+ mine photos",
    ):
        index.index(study, "mine")
    work(study, meant(study, "fetch", dataset="mine"))
    index.index(study, "mine")


def test_photo_whose_own_mask_has_another_size_is_left_out(tmp_path: Path, raw: dict[str, Any]) -> None:
    def square(side: int) -> bytes:
        return pixels.encode_png(np.full((side, side, 3), 9, np.uint8))

    photos = {f"photos/{c}/{n}.png": square(8) for c in range(5) for n in range(2)}
    truth = {n.replace("photos", "masks"): square(7 if "2/1" in n else 8) for n in photos}
    miniatures.as_folder(tmp_path / "mine", photos | truth)
    sources = {"source": f"{tmp_path}/mine/photos", "masks": f"{tmp_path}/mine/masks"}
    raw["datasets"]["mine"] = raw["datasets"]["squares"] | {"kind": "folder", "options": sources}
    study = load(tmp_path, raw)
    work(study, meant(study, "fetch", dataset="mine"))
    index.index(study, "mine")
    excluded = pd.read_csv(study.files.at("excluded", dataset="mine"))
    assert excluded.to_numpy().tolist() == [["2/1.png", "'2/1.png': photo and true mask differ in size"]]
    masks.masks(study, "mine")  # ground_truth takes the others
    assert (
        record(study, "masks_record", dataset="mine", masker="ground_truth")["metrics"]["without_mask"] == 0
    )


def test_everything_that_cannot_be_fetched_is_told_at_once(tmp_path: Path, raw: dict[str, Any]) -> None:
    raw["datasets"]["cars"] = raw["datasets"]["squares"] | {
        "kind": "cars196",
        "options": {"files": "car_ims.tgz"},
    }
    study = load(tmp_path, raw)
    with pytest.raises(UserError) as told:
        work(study, meant(study, "fetch", dataset="cars"))
    for file, part in (("car_ims.tgz", "photos"), ("cars_annos.mat", "annotations")):
        assert f"cars/{part}: {file} could not be fetched" in str(told.value)
        assert f"then run: python -m bgbias fetch cars {part}" in str(told.value)


def test_dataset_without_a_readable_photo_is_an_error_that_leaves_nothing(
    tmp_path: Path, raw: dict[str, Any]
) -> None:
    every = [f"{c:02d}/0.png" for c in range(3)]
    study = load(
        tmp_path, options(raw, train_classes=1, val_classes=1, test_classes=1, photos=1, truncated=every)
    )
    with pytest.raises(UserError, match=r"squares has no readable photo \(3 were left out\)"):
        index.index(study, "squares")
    assert outputs(study) == {}
