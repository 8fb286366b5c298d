"""Data nodes make the same files every time, and count what they leave out."""

from __future__ import annotations

import io
import re
import shutil
from pathlib import Path
from typing import Any

import miniatures
import numpy as np
import pandas as pd
import pytest
from PIL import ExifTags, Image
from small_study import data_nodes, described, load, options, outputs, record

from bgbias.cli.nodes import select_nodes, work
from bgbias.errors import UserError
from bgbias.files.checksums import fingerprint
from bgbias.files.store import ImageStore
from bgbias.images import pixels
from bgbias.masks import policy
from bgbias.nodes import collect, fetch, index, masks
from bgbias.photos.table import read_table
from bgbias.study.params import Study

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
    work(study, select_nodes(study, "fetch", dataset="birds"))
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
    work(study, select_nodes(study, "fetch", dataset="mine"))
    (tmp_path / "mine" / "4" / "2.png").write_bytes(pixel)
    fingerprint.cache_clear()
    with pytest.raises(
        UserError,
        match=r"has changed since it was fetched; run: python -m bgbias fetch --params \S+ mine photos",
    ):
        index.index(study, "mine")
    work(study, select_nodes(study, "fetch", dataset="mine"))
    index.index(study, "mine")


def test_photo_whose_own_mask_has_another_size_is_left_out(tmp_path: Path, raw: dict[str, Any]) -> None:
    def square(side: int, columns: int = 8, grey: int = 9) -> bytes:
        picture = np.zeros((side, side, 3), np.uint8)
        picture[:, :columns] = grey
        return pixels.encode_png(picture)

    photos = {f"photos/{c}/{n}.png": square(8) for c in range(5) for n in range(2)}
    truth = {n.replace("photos", "masks"): square(7 if "2/1" in n else 8, 4, 255) for n in photos}
    miniatures.as_folder(tmp_path / "mine", photos | truth)
    sources = {"source": f"{tmp_path}/mine/photos", "masks": f"{tmp_path}/mine/masks"}
    raw["datasets"]["mine"] = raw["datasets"]["squares"] | {"kind": "folder", "options": sources}
    study = load(tmp_path, raw)
    work(study, select_nodes(study, "fetch", dataset="mine"))
    index.index(study, "mine")
    excluded = pd.read_csv(study.files.at("excluded", dataset="mine"))
    said = "'2/1.png': photo and true mask differ in size: the photo is 8x8 pixels, the mask 7x7; save the mask at the photo's"
    assert excluded.to_numpy().tolist() == [["2/1.png", f"{said} size."]]
    masks.masks(study, "mine")  # ground_truth takes the others
    assert (
        record(study, "masks_record", dataset="mine", masker="ground_truth")["metrics"]["without_mask"] == 0
    )


def own_photos(tmp_path: Path, raw: dict[str, Any], files: dict[str, bytes], **more: Any) -> Study:
    """A study of somebody's folder, fetched."""
    miniatures.as_folder(tmp_path / "mine", files)
    sources = {"source": f"{tmp_path}/mine", **more}
    raw["datasets"]["mine"] = raw["datasets"]["squares"] | {"kind": "folder", "options": sources}
    study = load(tmp_path, raw)
    work(study, select_nodes(study, "fetch", dataset="mine"))
    return study


def grey(level: int, height: int = 8, width: int = 8) -> bytes:
    return pixels.encode_png(np.full((height, width, 3), level, np.uint8))


def test_whatever_lies_in_a_folder_and_is_not_taken_is_named_with_the_reason(
    tmp_path: Path, raw: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    files = {f"{c}/{n}.png": grey(10 * c + n) for c in range(5) for n in range(2)}
    files |= {
        "5/a.HEIC": b"x",
        "0/.DS_Store": b"x",
        "1/read me.txt": b"x",
        "2/bad.jpg": b"x",
        "3/twin.png": files["4/0.png"],
    }
    elsewhere = miniatures.as_folder(tmp_path / "elsewhere", {f"{n}.gif": grey(200 + n) for n in range(2)})
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "linked").symlink_to(elsewhere)
    study = own_photos(tmp_path, raw, files)
    index.index(study, "mine")
    excluded = pd.read_csv(study.files.at("excluded", dataset="mine")).set_index("image_id")["reason"]
    assert set(excluded.index) == {"5/a.HEIC", "0/.DS_Store", "1/read me.txt", "2/bad.jpg"}
    assert "convert it to JPEG or PNG" in excluded["5/a.HEIC"]
    found = record(study, "index_record", dataset="mine")
    assert (found["metrics"]["photos"], found["metrics"]["classes"], found["metrics"]["excluded"]) == (
        13,
        6,
        4,
    )
    assert found["notes"]["near_duplicates_under_two_labels"] == ["4/0.png (as 3/twin.png)"]
    assert found["notes"]["folders_without_a_photo"] == ["5"]
    said = capsys.readouterr().err
    assert "mine: left out: 1 (5/a.HEIC): a photo in a format that is not read here (.HEIC)" in said
    assert "mine: folders whose photos were all left out: 1 (5)" in said


@pytest.mark.parametrize("name", ["NA", "null", "nan"])
def test_names_that_read_as_missing_values_are_names(tmp_path: Path, raw: dict[str, Any], name: str) -> None:
    photos = {f"{c}/{n}.png": grey(10 * c + n) for c in range(5) for n in range(2)}
    half = pixels.encode_png(np.repeat(np.array([0, 255], np.uint8), 32).reshape(8, 8))
    drawn = miniatures.as_folder(tmp_path / "masks", dict.fromkeys(photos, half))
    raw["grids"]["small"]["cells"][0]["datasets"] = ["mine"]
    study = own_photos(tmp_path, raw, photos | {name: b"x"}, masks=str(drawn))
    index.index(study, "mine")
    masks.masks(study, "mine")
    assert collect._mask_report(study)["photos_unreadable"].tolist() == [0]
    made = study.files.at("mask_table", dataset="mine", masker="ground_truth")
    made.write_text(made.read_text().replace("0/0.png", name))
    table = policy.read_mask_table(made).set_index("image_id")
    assert table.loc[name, "area"] == 0.5
    assert table["area"].notna().all()


def test_raw_trimaps_are_refused_with_their_levels(tmp_path: Path, raw: dict[str, Any]) -> None:
    trimap = pixels.encode_png(np.array([[1, 2], [3, 3]], np.uint8))
    names = [f"{c}/{n}.png" for c in range(5) for n in range(2)]
    masks_at = miniatures.as_folder(tmp_path / "masks", dict.fromkeys(names, trimap))
    study = own_photos(tmp_path, raw, {n: grey(i, 2, 2) for i, n in enumerate(names)}, masks=str(masks_at))
    with pytest.raises(
        UserError, match=r"'mask of 0/0\.png' is no mask: its grey levels are 1, 2, 3, as of a trimap"
    ):
        index.index(study, "mine")


def test_files_among_the_masks_that_are_none_are_listed_and_are_no_photos(
    tmp_path: Path, raw: dict[str, Any]
) -> None:
    photos = {f"{c}/{n}.png": grey(10 * c + n) for c in range(5) for n in range(2)}
    half = pixels.encode_png(np.repeat(np.array([0, 255], np.uint8), 32).reshape(8, 8))
    drawn = dict.fromkeys(list(photos)[1:], half) | {"0/0.heic": b"x"}
    raw["grids"]["small"]["cells"][0]["datasets"] = ["mine"]
    for pack in (miniatures.as_folder, miniatures.as_zip):
        place = pack(tmp_path / f"masks {pack.__name__}", drawn)
        study = own_photos(tmp_path, raw, photos, masks=str(place))
        index.index(study, "mine")
        excluded = pd.read_csv(study.files.at("excluded", dataset="mine"))
        assert excluded["image_id"].tolist() == ["0/0.heic (masks)"]
        found = record(study, "index_record", dataset="mine")
        assert found["notes"]["photos_without_a_true_mask"] == ["0/0.png"]
        masks.masks(study, "mine")
        assert collect._mask_report(study)["photos_unreadable"].tolist() == [0]


def test_photos_are_turned_as_their_exif_says_where_that_is_asked_for(
    tmp_path: Path, raw: dict[str, Any]
) -> None:
    files = {f"{c}/{n}.png": grey(10 * c + n) for c in range(5) for n in range(2)}
    lying = Image.fromarray(np.repeat(np.arange(12, dtype=np.uint8), 8).reshape(12, 8) * 20)
    exif = lying.getexif()
    exif[ExifTags.Base.Orientation] = 6
    stream = io.BytesIO()
    lying.save(stream, "PNG", exif=exif)
    mask = miniatures.as_folder(
        tmp_path / "masks", {"0/0.png": pixels.encode_png(np.full((8, 12), 255, np.uint8))}
    )
    study = own_photos(tmp_path, raw, files | {"0/0.png": stream.getvalue()}, masks=str(mask))
    index.index(study, "mine")
    (reason,) = pd.read_csv(study.files.at("excluded", dataset="mine"))["reason"]
    assert "the photo is 8x12 pixels, the mask 12x8" in reason
    assert "`upright: true` turns it" in reason
    study = own_photos(tmp_path, raw, {}, masks=str(mask), upright=True)
    index.index(study, "mine")
    photos = ImageStore(study.files.at("photos", dataset="mine"))
    np.testing.assert_array_equal(photos.array("0/0.png", "L"), np.rot90(np.asarray(lying), -1))
    assert photos.read("1/0.png") == files["1/0.png"]
    assert "rotated_by_exif" not in record(study, "index_record", dataset="mine")["metrics"]


def test_masks_of_files_that_were_drawn_on_the_turned_photo_are_refused(
    tmp_path: Path, raw: dict[str, Any]
) -> None:
    """A half turn, which no shape tells."""
    mask = np.zeros((90, 90), np.uint8)
    mask[10:45, 8:30] = 255
    photo = np.random.default_rng(0).integers(60, 80, (90, 90)).astype(np.uint8)
    photo[mask > 0] = 200
    stream, exif = io.BytesIO(), Image.Exif()
    exif[ExifTags.Base.Orientation] = 3
    Image.fromarray(photo).save(stream, "PNG", exif=exif)
    files = {f"{c}/{n}.png": grey(10 * c + n) for c in range(5) for n in range(2)}
    folder = miniatures.as_folder(tmp_path / "drawn", {"0/0.png": pixels.encode_png(mask[::-1, ::-1].copy())})
    raw["maskers"]["drawn"] = {"kind": "files", "options": {"folder": str(folder)}}
    study = own_photos(tmp_path, raw, files | {"0/0.png": stream.getvalue()})
    index.index(study, "mine")
    with pytest.raises(
        UserError, match=r"'0/0\.png' carries a rotation .* Set `upright: true` in the dataset's options"
    ):
        masks.masks(study, "mine", "drawn")


def test_test_split_in_which_everybody_is_alone_is_told_and_refused_before_anything_trains(
    tmp_path: Path, raw: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    study = load(tmp_path, options(raw, lonely=[12, 13, 14, 15]))
    index.index(study, "squares")
    said = "squares: no test photo has another one of its class (4 photos of as many classes)"
    assert said in capsys.readouterr().err
    with pytest.raises(UserError, match=r"be a query: of 4 photos of 4 classes \(4 of one photo\)"):
        masks.masks(study, "squares")


def test_test_photos_alone_are_enough_for_a_grid_that_trains_nothing(
    tmp_path: Path, raw: dict[str, Any]
) -> None:
    files = {f"{c}/{n}.png": grey(10 * c + n) for c in range(3) for n in range(2)}
    miniatures.as_folder(tmp_path / "mine", files)
    rows = pd.DataFrame({"image": n, "label": n[0], "split": "test"} for n in files)
    rows.to_csv(tmp_path / "mine" / "list.csv", index=False)
    options = {"source": f"{tmp_path}/mine/list.csv"}
    raw["datasets"]["mine"] = raw["datasets"]["squares"] | {"kind": "table", "options": options}
    raw["grids"]["small"]["cells"][0]["datasets"] = ["mine"]
    alone = {"datasets": ["mine"], "backbones": ["pixels"], "pretrained": True}
    raw["grids"]["audit"] = {"cells": [alone | {"losses": [], "methods": [], "seeds": []}]}
    study = load(tmp_path, raw)
    work(study, select_nodes(study, "fetch", dataset="mine"))
    with pytest.raises(
        UserError, match=r"mine has no train photos, and the grid small trains on it \(mine/pixels"
    ):
        index.index(study, "mine")
    study = load(tmp_path, raw, "audit")
    index.index(study, "mine")
    assert record(study, "index_record", dataset="mine")["metrics"]["photos_test"] == 6


def test_everything_that_cannot_be_fetched_is_told_at_once(tmp_path: Path, raw: dict[str, Any]) -> None:
    raw["datasets"]["cars"] = raw["datasets"]["squares"] | {
        "kind": "cars196",
        "options": {"files": "car_ims.tgz"},
    }
    study = load(tmp_path, raw)
    with pytest.raises(UserError) as told:
        work(study, select_nodes(study, "fetch", dataset="cars"))
    for file, part in (("car_ims.tgz", "photos"), ("cars_annos.mat", "annotations")):
        assert f"cars/{part}: {file} could not be fetched" in str(told.value)
        assert re.search(rf"then run: python -m bgbias fetch --params \S+ cars {part}", str(told.value))


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
