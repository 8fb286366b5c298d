"""Photos that a list names come from copies at hand or from where they are published, and the list's checksum tells which."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
from miniatures import as_zip
from small_study import POOLS, described, load

from bgbias.backgrounds import pools
from bgbias.engine.records import read as read_record
from bgbias.errors import UserError
from bgbias.files.store import ImageStore
from bgbias.nodes import backgrounds, gather

pytestmark = pytest.mark.usefixtures("small_plugins")
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def raw(tmp_path: Path) -> dict[str, Any]:
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
        source = "val/val0.png" if name == "train0.png" else f"test/{name}"  # another copy
        (folder / "served" / name).write_bytes((folder / source).read_bytes())


def test_copies_with_the_lists_checksum_are_taken_and_the_rest_is_fetched(
    tmp_path: Path, raw: dict[str, Any]
) -> None:
    serve(tmp_path, "train0.png", *(f"test{n}.png" for n in range(4)))
    study = load(tmp_path, raw)
    gather.gather(study, "noise")
    record = read_record(study.files.at("gather_record", pool="noise"))
    assert record["metrics"] == {"photos": 12, "other_copies": 1}
    gathered = ImageStore(study.files.at("gathered", pool="noise"))
    assert gathered.read("train0.png") == (tmp_path / "val" / "val0.png").read_bytes()
    for role, count in POOLS.items():
        names = [f"{role}{n}.png" for n in range(count)]
        for name in set(names) - {"train0.png"}:
            assert gathered.read(name) == (tmp_path / role / name).read_bytes()


def test_what_was_fetched_before_a_failure_is_not_fetched_again(tmp_path: Path, raw: dict[str, Any]) -> None:
    as_zip(tmp_path / "seen.zip", {p.name: p.read_bytes() for p in tmp_path.glob("[tv][ra]*/*.png")})
    serve(tmp_path, "test0.png", "test1.png")
    study = load(tmp_path, raw)
    with pytest.raises(UserError, match=r"(?s)2 of 12 listed photos cannot be had.*'test2\.png'.*`copies`"):
        gather.gather(study, "noise")
    assert not study.files.at("gather_record", pool="noise").exists()
    for name in ("test0.png", "test1.png"):
        (tmp_path / "served" / name).unlink()
    serve(tmp_path, "test2.png", "test3.png")
    gather.gather(study, "noise")
    backgrounds.backgrounds(study, "noise")
    for role, count in POOLS.items():
        pool = ImageStore(study.files.at(f"{role}_pool", pool="noise"))
        assert pool.ids == [f"{role}{n}.png" for n in range(count)]


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
