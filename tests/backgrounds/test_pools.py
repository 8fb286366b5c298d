"""The three pools of backgrounds come from anywhere, share nothing, and are certified photo by photo."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from miniatures import as_zip
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
    shutil.copytree(tmp_path / "test", tmp_path / "test" / ".thumbnails")  # hidden
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


def added(folder: Path, name: str, content: bytes | None = None) -> dict[str, Any]:
    """A file among the test's photos, which is a training photo if its content is not said."""
    (folder / "test" / name).write_bytes(content or (folder / "train" / "train0.png").read_bytes())
    return {}


def zipped(folder: Path, *names: str) -> dict[str, Any]:
    photo = (folder / "train" / "train0.png").read_bytes()
    return {"train": {"source": str(as_zip(folder / "bad.zip", dict.fromkeys(names, photo)))}}


def listed(folder: Path, content: bytes) -> dict[str, Any]:
    (folder / "list.txt").write_bytes(content)
    return {"train": {"source": str(folder / "list.txt")}}


def in_parts(folder: Path) -> dict[str, Any]:
    parts = {"train": [0, 4], "val": [3, 5]}
    return {role: {"source": str(folder / "train"), "part": part} for role, part in parts.items()}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda f: added(f, "z.png"), r"'z\.png' stands in the pools train and test of noise; they must"),
        (lambda f: added(f, "train1.png"), r"'train1\.png' stands in the pools train and test of noise"),
        (lambda f: added(f, "broken.png", b"x"), r"'broken\.png' cannot be decoded"),
        (in_parts, r"'train3\.png' stands in the pools train and val of noise"),
        (lambda f: {"test": {"source": str(f / "nowhere.zip")}}, r"nowhere\.zip is missing. Put it there, set BGBIAS_SHARED_"),
        (lambda f: {"test": {"source": str(f / "test"), "part": [10, 20]}}, "gives no pictures for the test pool"),
        (lambda f: listed(f, b"train/nobody.png\n"), r"list\.txt lists .*nobody\.png, which is missing"),
        (lambda f: listed(f, "für.png\n".encode("latin-1")), r"list\.txt is not UTF-8"),
        (lambda f: zipped(f, "a/1.png", "b/1.png"), r"Two pictures are called '1\.png'"),
        (lambda f: zipped(f, "../1.png"), r"has a member '\.\./1\.png' that leads out of it"),
    ],
)  # fmt: skip
def test_pools_that_cannot_be_meant_are_refused(
    tmp_path: Path, raw: dict[str, Any], change: Callable[[Path], dict[str, Any]], words: str
) -> None:
    raw["backgrounds"]["noise"] |= change(tmp_path)
    study = load(tmp_path, raw)
    with pytest.raises(UserError, match=words):
        backgrounds.backgrounds(study, "noise")
    with pytest.raises(UserError, match="no backgrounds 'noisy'; there are: noise"):
        backgrounds.backgrounds(study, "noisy")
    assert not study.files.at("backgrounds_record", pool="noise").exists()
