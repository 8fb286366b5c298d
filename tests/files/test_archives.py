"""Archives are read without unpacking, and what is wrong with one is told."""

from __future__ import annotations

import contextlib
import io
import tarfile
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bgbias import seeds
from bgbias.errors import UserError
from bgbias.files.archives import Lookup, members

FILES = {"a/1.jpg": seeds.generator("one").bytes(30_000), "a/2.txt": b"two", "b/ü.jpg": b""}
Make = Callable[[Path, dict[str, bytes]], Path]


def make_zip(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.mkdir("empty folder.jpg")
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def make_tar(mode: str, **links: tuple[bytes, str]) -> Make:
    """Makes a tar of files and of links, ``b/<name>.jpg`` to kind and target."""

    def make(path: Path, files: dict[str, bytes]) -> Path:
        with tarfile.open(path, f"w{mode}") as archive:
            for name, data in files.items():
                info = tarfile.TarInfo(name)
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
            for name, (kind, target) in links.items():
                link = tarfile.TarInfo(f"b/{name}.jpg")
                link.type, link.linkname = kind, target
                archive.addfile(link)
        return path

    return make


KINDS = {"zip": make_zip, "tar": make_tar(""), "tgz": make_tar(":gz"), "txz": make_tar(":xz")}


@pytest.fixture(params=KINDS.values(), ids=KINDS)
def make(request: pytest.FixtureRequest) -> Make:
    return request.param  # type: ignore[no-any-return]


def test_wanted_files_come_in_the_archives_order_and_can_be_looked_up(tmp_path: Path, make: Make) -> None:
    path = make(tmp_path / "archive", FILES)  # the content tells the kind, not the name
    assert list(members(path, lambda name: True)) == list(FILES.items())
    assert [n for n, _ in members(path, lambda n: n.endswith(".jpg"))] == ["a/1.jpg", "b/ü.jpg"]
    files = Lookup(path, lambda name: name != "a/2.txt")
    assert files.names == ["a/1.jpg", "b/ü.jpg"]
    # In any order, as often as somebody likes, and by many at a time.
    with ThreadPoolExecutor(4) as threads:
        assert set(threads.map(files.read, ["a/1.jpg"] * 20)) == {FILES["a/1.jpg"]}
    assert files.read("b/ü.jpg") == b""


@pytest.mark.parametrize("name", ["../evil.jpg", "a/../../evil.jpg", "/etc/evil.jpg", "a\\..\\..\\evil.jpg"])
def test_member_that_leads_out_is_refused_even_if_not_wanted(tmp_path: Path, make: Make, name: str) -> None:
    path = make(tmp_path / "archive", {"a/1.jpg": b"1", name: b"evil"})
    for read in (lambda: list(members(path, lambda n: n == "a/1.jpg")), lambda: Lookup(path, lambda n: True)):
        with pytest.raises(UserError) as told:
            read()
        assert f"{path} has a member '{name}' that leads out of it" in str(told.value)


def test_a_truncated_archive_is_an_error_and_a_scrambled_one_is_ours_or_none(
    tmp_path: Path, make: Make
) -> None:
    noise = {f"{n}.jpg": seeds.generator("file", n).bytes(20_000) for n in range(5)}
    path = make(tmp_path / "archive", noise | {f"{n}.txt": b"some text to compress " * 50 for n in range(5)})
    data = path.read_bytes()
    words = r"archive .*(cannot be read|is neither a zip nor a tar).*fetch it again"
    for kept in (0.3, 0.6, 0.9):
        path.write_bytes(data[: int(kept * len(data))])
        with pytest.raises(UserError, match=words):
            list(members(path, lambda name: True))
    generator = seeds.generator("scramble")
    for _ in range(50):
        spoilt = bytearray(data)
        for place in generator.integers(0, len(data), 3):
            spoilt[place] = int(generator.integers(0, 256))
        path.write_bytes(spoilt)
        with contextlib.suppress(UserError):
            list(members(path, lambda name: True))


@pytest.mark.parametrize("content", [b"", b"<html>404</html>" * 100])
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "page.zip"
    path.write_bytes(content)
    for read in (lambda: list(members(path, lambda name: True)), lambda: Lookup(path, lambda name: True)):
        with pytest.raises(
            UserError, match=r"page\.zip is neither a zip nor a tar archive; delete it and fetch"
        ):
            read()


def test_hard_links_are_files_and_symbolic_ones_are_named_with_what_to_do(tmp_path: Path) -> None:
    make = make_tar("", hard=(tarfile.LNKTYPE, "a/1.jpg"), soft=(tarfile.SYMTYPE, "/etc/passwd"))
    path = make(tmp_path / "a.tar", {"a/1.jpg": b"one", "a/2.jpg": FILES["a/1.jpg"]})
    in_turn = dict(members(path, lambda name: True))
    assert (in_turn["b/hard.jpg"], len(in_turn)) == (b"one", 3)
    others: dict[str, str] = {}
    files = Lookup(path, lambda name: True, others)
    assert {name: files.read(name) for name in files.names} == in_turn
    assert list(others) == ["b/soft.jpg"]
    assert "tar --dereference" in others["b/soft.jpg"]
    path.write_bytes(path.read_bytes()[:20_000])
    with pytest.raises(UserError, match=r"'a/2\.jpg' is cut off"):
        files.read("a/2.jpg")
    nowhere = make_tar("", hard=(tarfile.LNKTYPE, "a/2.jpg"))(tmp_path / "b.tar", {"a/1.jpg": b"one"})
    with pytest.raises(UserError, match=r"b\.tar cannot be read .*a/2\.jpg.*fetch it again"):
        list(members(nowhere, lambda name: True))
