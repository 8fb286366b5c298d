"""Data nodes make the same files every time, and count what they leave out."""

import shutil
from pathlib import Path
from typing import Any

import miniatures
import numpy as np
import pandas as pd
import pytest
from miniatures import as_folder, as_zip
from small_study import data_nodes, load, options, outputs, record
from snapshots import snapshot

from bgbias.cli.nodes import select_nodes, work
from bgbias.errors import UserError
from bgbias.files.checksums import fingerprint
from bgbias.files.store import ImageStore
from bgbias.images import pixels
from bgbias.nodes import index
from bgbias.photos.table import read_table
from bgbias.study.params import Study

pytestmark = pytest.mark.usefixtures("small_plugins")


def grey(level: int) -> bytes:
    return pixels.encode_png(np.full((8, 8, 3), level, np.uint8))


PHOTOS = {f"{c}/{n}.png": grey(10 * c + n) for c in range(5) for n in range(2)}


def fetched(tmp_path: Path, raw: dict[str, Any], files: dict[str, bytes], **more: Any) -> Study:
    """A study of somebody's folder ``mine``, fetched; ``more``: options beside its place."""
    as_folder(tmp_path / "mine", files)
    own = {"kind": "folder", "options": {"source": f"{tmp_path}/mine", **more}}
    return study_of(tmp_path, raw, own)


def study_of(tmp_path: Path, raw: dict[str, Any], own: dict[str, Any], grid: str | None = None) -> Study:
    raw["datasets"]["mine"] = raw["datasets"]["squares"] | own
    study = load(tmp_path, raw, grid)
    work(study, select_nodes(study, "fetch", dataset="mine"))
    return study


def excluded(study: Study) -> dict[str, str]:
    """Why each photo was left out."""
    table = pd.read_csv(study.files.at("excluded", dataset="mine"), keep_default_na=False)
    return dict(zip(table["image_id"], table["reason"], strict=True))


def indexed(study: Study) -> dict[str, Any]:
    """The record of its index, made."""
    index.index(study, "mine")
    return record(study, "index_record", dataset="mine")


def test_a_folder_gives_the_same_bytes_and_others_after_an_edit(tmp_path: Path, raw: dict[str, Any]) -> None:
    seen = []
    for _ in range(2):
        study = fetched(tmp_path, raw, PHOTOS)
        data_nodes(study)
        found = indexed(study)["metrics"]
        seen.append((study.files.at("part", dataset="mine", part="photos").read_bytes(), outputs(study)))
        shutil.rmtree(study.paths.work)
    assert seen[0] == seen[1]
    assert (found["photos"], found["classes"], found["excluded"]) == (10, 5, 0)
    study = fetched(tmp_path, raw, {})
    index.index(study, "mine")
    table = read_table(study.files.at("table", dataset="mine"))
    assert table.ids == sorted(table.ids) == ImageStore(study.files.at("photos", dataset="mine")).ids
    as_folder(tmp_path / "mine", {"4/2.png": grey(9)})
    fingerprint.cache_clear()
    # The index alone does not read what was fetched before.
    with pytest.raises(UserError, match="from fetch mine/photos, which was not made"):
        index.index(study, "mine")
    assert indexed(fetched(tmp_path, raw, {}))["metrics"]["photos"] == 11


def test_photos_beside_a_broken_one_keep_their_backgrounds(tmp_path: Path, raw: dict[str, Any]) -> None:
    files, broken = miniatures.cub_files(), miniatures.LISTED_BIRDS[5]
    files[f"CUB_200_2011/images/{broken}"] = files[f"CUB_200_2011/images/{broken}"][:100]
    source = str(as_zip(tmp_path / "cub.zip", files))
    own = {"kind": "cub200", "options": miniatures.BIRDS_SPLIT | {"source": source}}
    study = study_of(tmp_path, raw, own)
    found = indexed(study)["metrics"]
    assert (found["photos"], found["excluded"], list(excluded(study))) == (12, 1, [broken])
    keys = {int(key) for _, key in read_table(study.files.at("table", dataset="mine")).keys}
    assert set(range(13)) - keys == {5}


def test_whatever_lies_in_a_folder_and_is_not_taken_is_named_with_the_reason(
    tmp_path: Path, raw: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    others = dict.fromkeys(("5/a.HEIC", "0/.DS_Store", "1/read me.txt", "2/bad.jpg"), b"x")
    elsewhere = as_folder(tmp_path / "elsewhere", {f"{n}.gif": grey(200 + n) for n in range(2)})
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "linked").symlink_to(elsewhere)
    study = fetched(tmp_path, raw, PHOTOS | others)
    found = indexed(study)
    assert set(excluded(study)) == set(others)
    assert "convert it to JPEG or PNG" in excluded(study)["5/a.HEIC"]
    assert [found["metrics"][n] for n in ("photos", "classes", "excluded")] == [12, 6, 4]
    assert found["notes"]["folders_without_a_photo"] == ["5"]
    said = capsys.readouterr().err
    assert "mine: left out: 1 (5/a.HEIC): a photo in a format that is not read here (.HEIC)" in said
    assert "mine: folders whose photos were all left out: 1 (5)" in said


def test_photos_are_turned_as_exif_says_where_that_is_asked_for(tmp_path: Path, raw: dict[str, Any]) -> None:
    turned = snapshot("turned", orientation=6)
    mask = as_folder(tmp_path / "masks", {"0/2.png": pixels.encode_png(np.full((48, 36), 255, np.uint8))})
    study = fetched(tmp_path, raw, PHOTOS | {"0/2.jpg": turned}, masks=str(mask))
    index.index(study, "mine")
    (reason,) = excluded(study).values()
    assert "the photo is 48x36 pixels, the mask 36x48" in reason
    assert "`upright: true` turns it" in reason
    study = fetched(tmp_path, raw, {}, masks=str(mask), upright=True)
    assert "rotated_by_exif" not in indexed(study)["metrics"]
    photos = ImageStore(study.files.at("photos", dataset="mine"))
    assert photos.read("0/2.jpg") == pixels.upright(turned, "0/2.jpg")
    assert photos.read("1/0.png") == PHOTOS["1/0.png"]


def test_test_photos_alone_are_enough_where_nothing_trains(tmp_path: Path, raw: dict[str, Any]) -> None:
    files = dict(list(PHOTOS.items())[:6])
    rows = "\n".join(["image,label,split", *(f"{n},{n[0]},test" for n in files)])
    as_folder(tmp_path / "mine", files | {"list.csv": rows.encode()})
    own = {"kind": "table", "options": {"source": f"{tmp_path}/mine/list.csv"}}
    raw["grids"]["small"]["cells"][0]["datasets"] = ["mine"]
    raw["grids"]["audit"] = {"cells": [{"datasets": ["mine"], "backbones": ["pixels"], "pretrained": True}]}
    words = r"mine has no train photos, and the grid small trains on it \(mine/pixels"
    with pytest.raises(UserError, match=words):
        index.index(study_of(tmp_path, raw, own), "mine")
    assert indexed(study_of(tmp_path, raw, own, "audit"))["metrics"]["photos_test"] == 6


def test_a_dataset_without_a_readable_photo_leaves_nothing(tmp_path: Path, raw: dict[str, Any]) -> None:
    every = [f"{c:02d}/0.png" for c in range(3)]
    few = {"train_classes": 1, "val_classes": 1, "test_classes": 1, "photos": 1}
    study = load(tmp_path, options(raw, truncated=every, **few))
    with pytest.raises(UserError, match=r"squares has no readable photo \(3 were left out\)"):
        index.index(study, "squares")
    assert outputs(study) == {}
