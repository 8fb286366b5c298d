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


def make_zip(path: Path, files: dict[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.mkdir("empty folder.jpg")
        for name, data in files.items():
            archive.writestr(name, data)


def make_tar(mode: str) -> Callable[[Path, dict[str, bytes]], None]:
    def make(path: Path, files: dict[str, bytes]) -> None:
        with tarfile.open(path, f"w{mode}") as archive:
            for name, data in files.items():
                info = tarfile.TarInfo(name)
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))

    return make


KINDS = {"zip": make_zip, "tar": make_tar(""), "tgz": make_tar(":gz"), "txz": make_tar(":xz")}
every_kind = pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)


@every_kind
def test_wanted_files_come_in_the_archives_order(tmp_path: Path, make: Callable[..., None]) -> None:
    make(tmp_path / "archive", FILES)  # the content tells the kind, not the name
    assert list(members(tmp_path / "archive", lambda name: True)) == list(FILES.items())
    assert [n for n, _ in members(tmp_path / "archive", lambda n: n.endswith(".jpg"))] == [
        "a/1.jpg",
        "b/ü.jpg",
    ]


@every_kind
def test_files_are_looked_up_as_they_are_read_in_turn(tmp_path: Path, make: Callable[..., None]) -> None:
    make(tmp_path / "archive", FILES)
    files = Lookup(tmp_path / "archive", lambda name: name != "a/2.txt")
    assert files.names == ["a/1.jpg", "b/ü.jpg"]
    # In any order, as often as somebody likes, and by many at a time.
    with ThreadPoolExecutor(4) as threads:
        assert set(threads.map(files.read, ["a/1.jpg"] * 20)) == {FILES["a/1.jpg"]}
    assert files.read("b/ü.jpg") == b""


@every_kind
def test_lookup_refuses_what_reading_in_turn_refuses(tmp_path: Path, make: Callable[..., None]) -> None:
    make(tmp_path / "archive", {"a/1.jpg": b"1", "../evil.jpg": b"evil"})
    with pytest.raises(UserError, match="leads out of it"):
        Lookup(tmp_path / "archive", lambda name: True)
    (tmp_path / "archive").write_bytes(b"no archive")
    with pytest.raises(UserError, match="neither a zip nor a tar"):
        Lookup(tmp_path / "archive", lambda name: True)


def test_lookup_in_a_tar_knows_links_and_what_is_cut_off(tmp_path: Path) -> None:
    make_tar("")(tmp_path / "archive", {"a/1.jpg": b"one", "a/2.jpg": FILES["a/1.jpg"]})
    with tarfile.open(tmp_path / "archive", "a") as archive:
        for name, kind in (("a/same.jpg", tarfile.LNKTYPE), ("a/other.jpg", tarfile.SYMTYPE)):
            link = tarfile.TarInfo(name)
            link.type, link.linkname = kind, "a/1.jpg"
            archive.addfile(link)
    others: dict[str, str] = {}
    files = Lookup(tmp_path / "archive", lambda name: True, others)
    assert files.read("a/same.jpg") == b"one"
    assert list(others) == ["a/other.jpg"]
    (tmp_path / "archive").write_bytes((tmp_path / "archive").read_bytes()[:20_000])
    with pytest.raises(UserError, match=r"'a/2\.jpg' is cut off"):
        files.read("a/2.jpg")


@every_kind
@pytest.mark.parametrize("name", ["../evil.jpg", "a/../../evil.jpg", "/etc/evil.jpg", "a\\..\\..\\evil.jpg"])
def test_member_that_leads_out_is_refused_even_if_not_wanted(
    tmp_path: Path, make: Callable[..., None], name: str
) -> None:
    make(tmp_path / "archive", {"a/1.jpg": b"1", name: b"evil"})
    with pytest.raises(UserError) as told:
        list(members(tmp_path / "archive", lambda n: n == "a/1.jpg"))
    assert f"{tmp_path}/archive has a member '{name}' that leads out of it" in str(told.value)


@every_kind
@pytest.mark.parametrize("kept", [0.3, 0.6, 0.95])
def test_truncated_archive_is_an_error(tmp_path: Path, make: Callable[..., None], kept: float) -> None:
    path = tmp_path / "archive"
    make(path, {f"{n}.jpg": seeds.generator("file", n).bytes(20_000) for n in range(10)})
    data = path.read_bytes()
    path.write_bytes(data[: int(kept * len(data))])
    with pytest.raises(
        UserError, match=r"archive .*(cannot be read|is neither a zip nor a tar).*fetch it again"
    ):
        list(members(path, lambda name: True))


@every_kind
def test_scrambled_archive_is_an_error_of_ours_or_none(tmp_path: Path, make: Callable[..., None]) -> None:
    path = tmp_path / "archive"
    make(path, {f"{n}.txt": b"some text to compress " * 50 for n in range(10)})
    data = path.read_bytes()
    generator = seeds.generator("scramble")
    for _ in range(100):
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
    with pytest.raises(UserError, match=r"page\.zip is neither a zip nor a tar archive; delete it and fetch"):
        list(members(path, lambda name: True))


def tar_with_links(path: Path, **links: tuple[bytes, str]) -> Path:
    """A tar of ``a/1.jpg`` and of links: name to kind and target."""
    with tarfile.open(path, "w") as archive:
        first = tarfile.TarInfo("a/1.jpg")
        first.size = 3
        archive.addfile(first, io.BytesIO(b"one"))
        for name, (kind, target) in links.items():
            link = tarfile.TarInfo(f"b/{name}.jpg")
            link.type, link.linkname = kind, target
            archive.addfile(link)
    return path


def test_hard_links_are_files_and_symbolic_ones_are_named_with_what_to_do(tmp_path: Path) -> None:
    path = tar_with_links(
        tmp_path / "a.tar", hard=(tarfile.LNKTYPE, "a/1.jpg"), soft=(tarfile.SYMTYPE, "/etc/passwd")
    )
    passed_over: dict[str, str] = {}
    found = list(members(path, lambda name: True, passed_over))
    assert found == [("a/1.jpg", b"one"), ("b/hard.jpg", b"one")]
    assert list(passed_over) == ["b/soft.jpg"]
    assert "tar --dereference" in passed_over["b/soft.jpg"]


def test_hard_link_to_nothing_is_an_error(tmp_path: Path) -> None:
    path = tar_with_links(tmp_path / "a.tar", hard=(tarfile.LNKTYPE, "a/2.jpg"))
    with pytest.raises(UserError, match=r"a\.tar cannot be read .*a/2\.jpg.*fetch it again"):
        list(members(path, lambda name: True))
