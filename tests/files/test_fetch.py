"""A file is fetched whole and verified, or not at all, whatever the network does; all of it on this machine's own loopback."""

import hashlib
import os
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from miniatures import as_folder
from web import Server, serving

from bgbias import seeds
from bgbias.errors import UserError
from bgbias.files import download as downloading
from bgbias.files.archives import members
from bgbias.files.download import NotHad, download
from bgbias.files.fetch import Desk, Source, fetch, partial_download

CONTENT = seeds.generator("archive").bytes(300_000)
SHA256, MD5 = hashlib.sha256(CONTENT).hexdigest(), hashlib.md5(CONTENT).hexdigest()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(downloading, "PAUSES", (0.0, 0.0, 0.0))
    with serving(CONTENT) as server:
        yield server


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    (tmp_path / "downloads").mkdir()
    return Desk(tmp_path / "downloads", tmp_path / "checksums.csv", tmp_path / "checksums.lock")


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


@pytest.mark.parametrize(
    ("trouble", "asked", "words"),
    [
        ({"breaks": [100_000, 50_000]}, [None, "bytes=100000-", "bytes=150000-"], ""),
        # Each that brings something gives new tries.
        ({"breaks": [10_000] * 20}, [None, *(f"bytes={n}0000-" for n in range(1, 21))], ""),
        ({"breaks": [100_000], "misplaced": True}, [None, "bytes=100000-", None], ""),
        ({"breaks": [100_000], "ranges": False}, [None, "bytes=100000-"], ""),
        ({"stalls": [70_001]}, [None, "bytes=70001-"], ""),
        ({"failures": [503, 429]}, [None] * 3, ""),
        ({"failures": [500] * 10}, [None] * 4, "HTTP Error 500"),  # three pauses
        ({"failures": [404]}, [None], "HTTP Error 404"),
        ({"breaks": [0] * 4}, [None] * 4, "the connection ended after 0 of 300000 bytes"),
        ({"kind": "text/html; charset=utf-8"}, [None], "a web page came, not the file"),
        ({"content": b"other"}, [None], "a file of 5 bytes is there, not one of 300000"),
        (
            {"stalls": [200_000, 0, 0, 0]},
            [None, *["bytes=200000-"] * 3],
            r"nothing came for 0\.3 s; 200\.0 kB are kept, the same command goes on",
        ),
    ],
)
def test_a_download_goes_on_where_it_ended_until_trouble_that_stays_is_told(
    server: Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    trouble: dict[str, Any],
    asked: list[str | None],
    words: str,
) -> None:
    monkeypatch.setattr(downloading, "TIMEOUT_SECONDS", 0.3 if "stalls" in trouble else 60.0)
    vars(server).update(trouble)
    part = tmp_path / "part"
    with pytest.raises(NotHad, match=words) if words else nullcontext():
        # Redirects are followed, and resumed.
        download(f"{server.root}/moved", part, "birds", len(CONTENT))
        assert part.read_bytes() == CONTENT
        assert names(tmp_path) == ["part"]
    assert server.asked == asked
    begun = part.exists() and part.stat().st_size > 0
    assert begun == (not words or "are kept" in words)


def test_a_replaced_or_long_file_comes_whole(server: Server, tmp_path: Path) -> None:
    part = tmp_path / "part"
    part.write_bytes(CONTENT[:100_000])
    (tmp_path / "part.version").write_text(server.version)
    server.content, server.version = seeds.generator("another").bytes(len(CONTENT)), '"2"'
    for more, asked in ((b"", "bytes=100000-"), (b"", "bytes=300000-"), (b"more", None)):
        part.write_bytes(part.read_bytes() + more)
        download(server.url, part, "birds")
        assert part.read_bytes() == server.content
        assert server.asked[-1] == asked


@pytest.mark.parametrize(("kind", "digest"), [("sha256", SHA256), ("sha256", SHA256[:8]), ("md5", MD5)])
def test_what_is_fetched_is_verified(server: Server, tmp_path: Path, kind: str, digest: str) -> None:
    (tmp_path / "own.tgz").write_bytes(CONTENT)
    for number, place in enumerate((server.url, str(tmp_path / "own.tgz"))):
        target = tmp_path / f"raw{number}" / "archive"
        source = Source(place=place, **{kind: digest})
        assert fetch((source,), target, "birds") == source
        assert target.read_bytes() == CONTENT
        assert not target.samefile(tmp_path / "own.tgz")  # a person may edit her own
        target.write_bytes(b"old")
        tampered, unchecked = Source(place=place, **{kind: digest[::-1]}), Source(place=server.url)
        with pytest.raises(UserError, match=rf"{place}.* wrong checksum \({kind} .* expected"):
            fetch((tampered, unchecked), target, "birds")  # never a fallback: somebody may have tampered
        assert target.read_bytes() == b"old"
        assert names(target.parent) == ["archive"]


def test_what_a_place_began_is_continued_there_alone(server: Server, tmp_path: Path) -> None:
    target, places = tmp_path / "archive", [Source(place=server.url + end) for end in ("", "?mirror")]
    for place, begun in zip(places, (CONTENT[:200_000], b"other"), strict=True):
        partial_download(target, place).write_bytes(begun)
    fetch(tuple(places), target, "birds")
    assert target.read_bytes() == CONTENT
    assert server.asked == ["bytes=200000-"]
    assert names(tmp_path) == ["archive"]  # what was begun elsewhere is cleared away


def test_mirrors_are_tried_in_turn(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(CONTENT[:-1] + b"?") as wrong:
        sources = tuple(Source(place=s.url, md5=MD5) for s in (wrong, server))
        assert fetch(sources, tmp_path / "archive", "birds") == sources[1]
        assert (tmp_path / "archive").read_bytes() == CONTENT
        said = capsys.readouterr().err
        assert f"taken from {server.url}" in said
        assert f"{wrong.url}: wrong checksum (md5 " in said
        # Two wrong ones are both told, and what no check can tell is never taken in their place.
        server.content = CONTENT[:-2] + b"??"
        with pytest.raises(UserError) as told:
            fetch((*sources, Source(place=server.url + "?unchecked")), tmp_path / "other", "birds")
        assert all(f"{one.url}: wrong checksum" in str(told.value) for one in (wrong, server))
        assert names(tmp_path) == ["archive"]


def test_the_first_place_that_works_is_used_else_all_are_listed(server: Server, tmp_path: Path) -> None:
    missing = Source(place=f"{server.url}/none", md5="f" * 32)
    closed, absent = Source(place="http://127.0.0.1:9/archive"), Source(place=str(tmp_path / "absent.tgz"))
    sources = (missing, closed, absent, Source(place="ftp://example.org/a.zip"))
    assert fetch((*sources, Source(place=server.url)), tmp_path / "archive", "birds").place == server.url
    words = (
        rf"(?s){server.url}/none: HTTP Error 404.*127\.0\.0\.1:9/archive: \[Errno 111\] Connection refused"
        r".*absent\.tgz: no such file or folder.*only http and https.*\(md5 ffff"
        r".*under datasets\.birds\.options.*python -m bgbias fetch birds"
    )
    with pytest.raises(UserError, match=words):
        fetch(sources, tmp_path / "other", "birds")
    words = r"(?s)^net could not be fetched\.\n.*\nPut it there; then run: this$"
    with pytest.raises(UserError, match=words):
        fetch((absent,), tmp_path / "other", "net", "Put it there; then run: this")
    assert names(tmp_path) == ["archive"]


def test_of_a_folder_what_is_needed_is_packed(tmp_path: Path) -> None:
    every = ("images.txt", "notes.doc", "a/2.jpg", "b/3.jpg", ".hidden.txt")
    folder, target = as_folder(tmp_path / "mine", dict.fromkeys(every, b"x")), tmp_path / "archive"
    for source, packed in (
        (Source(place=str(folder), keep=(".txt",)), ["a/2.jpg", "b/3.jpg", "images.txt"]),
        (Source(place=str(folder), names=frozenset({"a/2.jpg", "gone.jpg"})), ["a/2.jpg"]),
    ):
        fetch((source,), target, "mine")
        assert [name for name, _ in members(target, lambda name: True)] == packed
    with pytest.raises(UserError, match=r"holds none of the 1 files that the table names, e\.g\. '3\.jpg'"):
        fetch((Source(place=str(folder), names=frozenset({"3.jpg"})),), target, "mine")


@pytest.mark.parametrize("linked", [True, False])
def test_a_file_that_a_person_fetched_comes_before_every_place_and_is_not_replaced_if_it_is_wrong(
    server: Server, tmp_path: Path, desk: Desk, monkeypatch: pytest.MonkeyPatch, linked: bool
) -> None:
    if not linked:
        monkeypatch.setattr(os, "link", Mock(side_effect=OSError("Invalid cross-device link")))
    own, target = desk.downloads / "birds.tgz", tmp_path / "raw" / "photos"
    source = Source(place=server.url, file="birds.tgz", md5=MD5, size=len(CONTENT))
    words = ("299999 bytes, expected 300000", "wrong checksum")
    for wrong, said in zip((CONTENT[:-1], CONTENT[:-1] + b"?"), words, strict=True):
        own.write_bytes(wrong)
        with pytest.raises(UserError, match=rf"downloads/birds\.tgz: {said}"):
            fetch((source,), target, "birds", part="photos", desk=desk)
        assert not target.exists()
    own.write_bytes(CONTENT)
    assert fetch((source,), target, "birds", part="photos", desk=desk).place == str(own)
    assert target.read_bytes() == CONTENT
    assert server.asked == []
    assert target.samefile(own) == linked  # a gigabyte is not written twice


def test_an_unpublished_checksum_is_pinned_on_first_use(server: Server, tmp_path: Path, desk: Desk) -> None:
    def take(**source: Any) -> bytes:
        fetch((Source(**source),), tmp_path / "photos", "birds", part="photos", desk=desk)
        return (tmp_path / "photos").read_bytes()

    (tmp_path / "own.zip").write_bytes(CONTENT)
    take(place=server.url, sha256=SHA256)
    take(place=str(tmp_path / "own.zip"))
    assert not desk.checksums.exists()  # of those that somebody published, and of the user's own, nothing is
    for _ in range(2):
        take(place=server.url, file="birds.zip", sha256=SHA256[:8])
        lines = desk.checksums.read_text().splitlines()
        assert lines == ["dataset,part,file,bytes,sha256", f"birds,photos,birds.zip,{len(CONTENT)},{SHA256}"]
    server.content = CONTENT[:-1] + b"?"
    other = hashlib.sha256(server.content).hexdigest()
    with pytest.raises(UserError, match=rf"(?s)(?=.*{SHA256})(?=.*{other}).*{desk.checksums}"):
        take(place=server.url, file="birds.zip")
    assert (tmp_path / "photos").read_bytes() == CONTENT
    assert desk.checksums.read_text().splitlines() == lines
    # Deleting the line accepts the new file; of several files the lines are sorted.
    desk.checksums.write_text(lines[0] + "\n")
    assert take(place=server.url, file="birds.zip") == server.content
    desk.pin("birds", "photos", "a.zip", 1, SHA256)
    pinned = [line.split(",")[2] for line in desk.checksums.read_text().splitlines()]
    assert pinned == ["file", "a.zip", "birds.zip"]
    desk.checksums.write_text("something else\n")
    with pytest.raises(UserError, match="must have the columns dataset, part, file, bytes, sha256"):
        take(place=server.url, file="birds.zip")
