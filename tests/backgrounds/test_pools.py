"""The three pools of backgrounds come from anywhere, share nothing, and are certified photo by photo."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from small_study import described, load

from bgbias.errors import UserError
from bgbias.files import checksums
from bgbias.files.store import ImageStore
from bgbias.nodes import backgrounds
from bgbias.study.params import Study

pytestmark = pytest.mark.usefixtures("small_plugins")


@pytest.fixture
def raw(tmp_path: Path) -> dict[str, Any]:
    return described(tmp_path)


def pool_names(study: Study, role: str) -> list[str]:
    return ImageStore(study.files.at(f"{role}_pool", pool="noise")).ids


def test_pools_are_sorted_and_certified(tmp_path: Path, raw: dict[str, Any]) -> None:
    raw["backgrounds"]["noise"]["train"] |= {"part": [1, 4], "licence": "CC0"}
    study = load(tmp_path, raw)
    backgrounds.backgrounds(study, "noise")
    assert pool_names(study, "train") == ["train1.png", "train2.png", "train3.png"]
    assert pool_names(study, "test") == [f"test{n}.png" for n in range(4)]
    table = pd.read_csv(study.files.at("pool_table", pool="noise"))
    assert table.columns.tolist() == ["pool", "name", "width", "height", "licence", "sha256"]
    assert table["licence"].tolist() == ["CC0"] * 3 + ["unknown"] * 7
    assert table.loc[1, ["width", "height"]].tolist() == [50, 44]
    for row in table.itertuples():
        assert checksums.sha256(tmp_path / str(row.pool) / str(row.name)) == row.sha256


def test_pools_come_from_folders_lists_and_zips_alike(tmp_path: Path, raw: dict[str, Any]) -> None:
    study = load(tmp_path, raw)
    backgrounds.backgrounds(study, "noise")
    first = {r: study.files.at(f"{r}_pool", pool="noise").read_bytes() for r in ("train", "val", "test")}
    (tmp_path / "list.txt").write_text("".join(f"train/train{n}.png\n" for n in (3, 1, 0, 4, 2)))
    with zipfile.ZipFile(tmp_path / "val.zip", "w") as archive:
        archive.writestr("__MACOSX/val/._val0.png", b"junk")
        for n in (2, 0, 1):
            archive.write(tmp_path / "val" / f"val{n}.png", f"val/val{n}.png")
    raw["backgrounds"]["noise"]["train"]["source"] = str(tmp_path / "list.txt")
    raw["backgrounds"]["noise"]["val"]["source"] = str(tmp_path / "val.zip")
    study = load(tmp_path, raw)
    backgrounds.backgrounds(study, "noise")
    assert first == {r: study.files.at(f"{r}_pool", pool="noise").read_bytes() for r in first}


def test_pictures_in_hidden_folders_are_in_no_pool(tmp_path: Path, raw: dict[str, Any]) -> None:
    shutil.copytree(tmp_path / "train", tmp_path / "train" / ".thumbnails")
    study = load(tmp_path, raw)
    backgrounds.backgrounds(study, "noise")
    assert pool_names(study, "train") == [f"train{n}.png" for n in range(5)]


def change_pool(tmp_path: Path, raw: dict[str, Any], change: str) -> None:
    noise = raw["backgrounds"]["noise"]
    if change == "same photo under another name":
        shutil.copyfile(tmp_path / "train" / "train0.png", tmp_path / "test" / "z.png")
    elif change == "same name":
        shutil.copyfile(tmp_path / "train" / "train0.png", tmp_path / "test" / "train1.png")
    elif change == "overlapping parts":
        noise["train"], noise["val"] = (
            {"source": str(tmp_path / "train"), "part": part} for part in ([0, 4], [3, 5])
        )
    elif change == "broken photo":
        (tmp_path / "val" / "broken.png").write_bytes(b"x")
    elif change == "missing source":
        noise["test"]["source"] = str(tmp_path / "nowhere.zip")
    elif change == "empty source":
        noise["test"]["part"] = [10, 20]
    elif change == "list in Latin-1":
        (tmp_path / "list.txt").write_bytes("für.png\n".encode("latin-1"))
        noise["train"]["source"] = str(tmp_path / "list.txt")
    elif change == "missing in list":
        (tmp_path / "list.txt").write_text("train/nobody.png\n")
        noise["train"]["source"] = str(tmp_path / "list.txt")
    else:
        with zipfile.ZipFile(tmp_path / "bad.zip", "w") as archive:
            for name in {"twice": ("a/1.png", "b/1.png"), "leads out": ("../1.png",)}[change]:
                archive.write(tmp_path / "train" / "train0.png", name)
        noise["train"]["source"] = str(tmp_path / "bad.zip")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            "same photo under another name",
            r"'z\.png' stands in the pools train and test of noise; they must",
        ),
        ("same name", r"'train1\.png' stands in the pools train and test of noise"),
        ("overlapping parts", r"'train3\.png' stands in the pools train and val of noise"),
        ("broken photo", r"'broken\.png' cannot be decoded"),
        ("missing source", r"nowhere\.zip is missing. Put it there, set BGBIAS_SHARED_DATA"),
        ("empty source", "gives no pictures for the test pool"),
        ("missing in list", r"list\.txt lists .*nobody\.png, which is missing"),
        ("list in Latin-1", r"list\.txt is not UTF-8"),
        ("twice", r"Two pictures are called '1\.png'"),
        ("leads out", r"has a member '\.\./1\.png' that leads out of it"),
    ],
)
def test_pools_that_cannot_be_meant_are_refused(
    tmp_path: Path, raw: dict[str, Any], change: str, words: str
) -> None:
    change_pool(tmp_path, raw, change)
    study = load(tmp_path, raw)
    with pytest.raises(UserError, match=words):
        backgrounds.backgrounds(study, "noise")
    with pytest.raises(UserError, match="no backgrounds 'noisy'; there are: noise"):
        backgrounds.backgrounds(study, "noisy")
    assert not study.files.at("backgrounds_record", pool="noise").exists()
