"""Photos that a list names come from copies at hand or from the network, and the list's checksum tells which."""

from __future__ import annotations

import functools
import hashlib
import threading
import zipfile
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from small_study import POOLS, described, load

from bgbias.backgrounds import pools
from bgbias.engine.records import read as read_record
from bgbias.errors import UserError
from bgbias.files.store import ImageStore
from bgbias.nodes import backgrounds, gather

pytestmark = pytest.mark.usefixtures("small_plugins")
ROOT = Path(__file__).resolve().parents[2]


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None: ...


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A host of photos that serves what lies in ``served``."""
    monkeypatch.setenv("no_proxy", "*")
    (tmp_path / "served").mkdir()
    handler = functools.partial(Quiet, directory=str(tmp_path / "served"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.fixture
def raw(tmp_path: Path, host: str) -> dict[str, Any]:
    """The small study with its three pools in one list: val and train share a group, cut into parts."""
    made = described(tmp_path)
    rows = ["pool,name,url,author,licence,sha256"]
    for group, folders in {"seen": ("train", "val"), "unseen": ("test",)}.items():
        for photo in sorted(p for folder in folders for p in (tmp_path / folder).iterdir()):
            rows.append(f"{group},{photo.name},{host}/{photo.name},unknown,CC0,{_sha256(photo.read_bytes())}")
    (tmp_path / "list.csv").write_text("\n".join(rows))
    with zipfile.ZipFile(tmp_path / "seen.zip", "w") as archive:
        for folder in ("train", "val"):
            for photo in (tmp_path / folder).iterdir():
                archive.write(photo, f"photos/{photo.name}")
    source = {"source": str(tmp_path / "list.csv"), "copies": [str(tmp_path / "seen.zip"), "nowhere.zip"]}
    made["backgrounds"]["noise"] = {
        "train": {**source, "group": "seen", "part": [0, 5]},
        "val": {**source, "group": "seen", "part": [5, 8]},
        "test": {**source, "group": "unseen"},
    }
    return made


def serve(folder: Path, *names: str) -> None:
    for name in names:
        (folder / "served" / name).write_bytes((folder / "test" / name).read_bytes())


def test_copies_are_taken_and_the_rest_is_fetched(tmp_path: Path, raw: dict[str, Any]) -> None:
    serve(tmp_path, *(f"test{n}.png" for n in range(4)))
    study = load(tmp_path, raw)
    gather.gather(study, "noise")
    backgrounds.backgrounds(study, "noise")
    for role, count in POOLS.items():
        names = [f"{role}{n}.png" for n in range(count)]
        store = ImageStore(study.files.at(f"{role}_pool", pool="noise"))
        assert store.ids == names
        assert [store.read(n) for n in names] == [(tmp_path / role / n).read_bytes() for n in names]
    record = read_record(study.files.at("gather_record", pool="noise"))
    assert record["metrics"] == {"photos": 12, "other_copies": 0}


def test_copy_with_another_checksum_is_not_taken_and_one_that_is_fetched_is_counted(
    tmp_path: Path, raw: dict[str, Any]
) -> None:
    serve(tmp_path, *(f"test{n}.png" for n in range(4)))
    other = (tmp_path / "val" / "val0.png").read_bytes()
    (tmp_path / "served" / "train0.png").write_bytes(other)
    with zipfile.ZipFile(tmp_path / "seen.zip", "w") as archive:
        archive.writestr("train0.png", (tmp_path / "test" / "test0.png").read_bytes())
        for photo in [*sorted((tmp_path / "train").iterdir())[1:], *(tmp_path / "val").iterdir()]:
            archive.write(photo, photo.name)
    study = load(tmp_path, raw)
    gather.gather(study, "noise")
    assert ImageStore(study.files.at("gathered", pool="noise")).read("train0.png") == other
    assert read_record(study.files.at("gather_record", pool="noise"))["metrics"]["other_copies"] == 1


def test_what_was_fetched_before_a_failure_is_not_fetched_again(tmp_path: Path, raw: dict[str, Any]) -> None:
    serve(tmp_path, "test0.png", "test1.png")
    study = load(tmp_path, raw)
    with pytest.raises(UserError, match=r"(?s)2 of 12 listed photos cannot be had.*'test2\.png'.*`copies`"):
        gather.gather(study, "noise")
    assert not study.files.at("gather_record", pool="noise").exists()
    for name in ("test0.png", "test1.png"):
        (tmp_path / "served" / name).unlink()
    serve(tmp_path, "test2.png", "test3.png")
    gather.gather(study, "noise")
    assert len(ImageStore(study.files.at("gathered", pool="noise"))) == 12


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


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
