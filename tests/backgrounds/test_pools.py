"""The three pools of backgrounds come from anywhere, share nothing, and are certified photo by photo; of a list, by checksums."""

from __future__ import annotations

import hashlib
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from miniatures import as_zip
from project import ROOT
from small_study import POOLS, described, load

from bgbias.backgrounds import pools
from bgbias.engine.records import read as read_record
from bgbias.errors import UserError
from bgbias.files import checksums
from bgbias.files.store import ImageStore
from bgbias.nodes import backgrounds, gather
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


# Listed photos.


@pytest.fixture
def listed_raw(tmp_path: Path) -> dict[str, Any]:
    """The small study with its three pools in one list: val and train share a group, cut into parts, and lie in a zip, where one
    photo is another one; the test's are published in a folder.
    """
    made = described(tmp_path)
    rows = ["pool,name,url,author,licence,sha256"]
    for group, folders in {"seen": ("train", "val"), "unseen": ("test",)}.items():
        for photo in sorted(p for folder in folders for p in (tmp_path / folder).iterdir()):
            checksum = hashlib.sha256(photo.read_bytes()).hexdigest()
            rows.append(f"{group},{photo.name},{tmp_path}/served/{photo.name},unknown,CC0,{checksum}")
    (tmp_path / "list.csv").write_text("\n".join(rows))
    seen = {f"photos/{p.name}": p.read_bytes() for f in ("train", "val") for p in (tmp_path / f).iterdir()}
    as_zip(tmp_path / "seen.zip", seen | {"photos/train0.png": seen["photos/val1.png"]})
    source = {"source": str(tmp_path / "list.csv"), "copies": [str(tmp_path / "seen.zip"), "nowhere.zip"]}
    made["backgrounds"]["noise"] = {
        "train": {**source, "group": "seen", "part": [0, 5]},
        "val": {**source, "group": "seen", "part": [5, 8]},
        "test": {**source, "group": "unseen"},
    }
    return made


def serve(folder: Path, *names: str) -> None:
    (folder / "served").mkdir(exist_ok=True)
    for name in names:
        (source,) = folder.glob(f"t[er]*/{name}")
        added = b"another copy" if name == "train0.png" else b""
        (folder / "served" / name).write_bytes(source.read_bytes() + added)


def test_copies_with_the_lists_checksum_are_taken_and_the_rest_is_fetched_once(
    tmp_path: Path, listed_raw: dict[str, Any]
) -> None:
    """What was fetched before a failure is not fetched again."""
    serve(tmp_path, "train0.png", "test0.png", "test1.png")
    study = load(tmp_path, listed_raw)
    with pytest.raises(UserError, match=r"(?s)2 of 12 listed photos cannot be had.*'test2\.png'.*`copies`"):
        gather.gather(study, "noise")
    assert not study.files.at("gather_record", pool="noise").exists()
    shutil.rmtree(tmp_path / "served")
    serve(tmp_path, "test2.png", "test3.png")
    gather.gather(study, "noise")
    record = read_record(study.files.at("gather_record", pool="noise"))
    assert record["metrics"] == {"photos": 12, "other_copies": 1}
    gathered = ImageStore(study.files.at("gathered", pool="noise"))
    assert gathered.read("train0.png").endswith(b"another copy")
    assert gathered.read("val0.png") == (tmp_path / "val/val0.png").read_bytes()
    backgrounds.backgrounds(study, "noise")
    for role, count in POOLS.items():
        assert pool_names(study, role) == [f"{role}{n}.png" for n in range(count)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name,url\na.png,x", "no column 'licence'"),
        ("name,url,licence,sha256\na.png,x,CC0,0\na.png,x,CC0,0", r"line 3: 'a\.png' is listed twice"),
        ("name,url,licence,sha256\n../a.png,x,CC0,0", r"line 2: '\.\./a\.png' is not the file name"),
        ("name,url,licence,sha256\n", "lists no photo"),
    ],
)
def test_a_list_that_cannot_be_meant_is_refused(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "list.csv").write_text(text)
    with pytest.raises(UserError, match=words):
        pools.read_list(tmp_path / "list.csv")


def test_unknown_group_is_told_with_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="lists no photo of pool 'tset'; it has: test, val"):
        pools.read_list(ROOT / "data/backgrounds/sources.csv", "tset")


def test_the_papers_backgrounds_are_two_hundred_in_two_pools_without_a_photo_in_common() -> None:
    val, test = (pools.read_list(ROOT / "data/backgrounds/sources.csv", pool) for pool in ("val", "test"))
    assert (len(val), len(test)) == (100, 100)
    assert len({p.name for p in val + test}) == len({p.sha256 for p in val + test}) == 200
    assert all(p.url.endswith(p.name) and p.licence for p in val + test)
