"""An archive is fetched whole and verified, or not at all; all of it on this machine's own loopback."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from bgbias import images, seeds
from bgbias.archives import members
from bgbias.errors import UserError
from bgbias.fetching import Source, fetch

CONTENT = seeds.generator("archive").bytes(3_000_000)
SHA256, MD5 = hashlib.sha256(CONTENT).hexdigest(), hashlib.md5(CONTENT).hexdigest()


class Server(ThreadingHTTPServer):
    """Serves CONTENT as /archive; ``breaks`` holds after how many bytes each of its answers breaks off."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[str | None] = []
        self.breaks: list[int] = []
        self.ranges = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/archive"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        asked = self.headers.get("Range")
        self.server.asked.append(asked)
        if self.path.partition("?")[0] != "/archive":
            self.send_error(404)
            return
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked and self.server.ranges else 0
        if start >= len(CONTENT):
            self.send_error(416)
            return
        body = CONTENT[start:]
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: self.server.breaks.pop(0)] if self.server.breaks else body)

    def log_message(self, *words: object) -> None:
        """Silence."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "*")
    with Server() as serving:
        thread = threading.Thread(target=serving.serve_forever, args=(0.01,))
        thread.start()
        yield serving
        serving.shutdown()
        thread.join()


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


@pytest.mark.parametrize(
    "sums", [{}, {"sha256": SHA256}, {"sha256": SHA256[:8]}, {"md5": MD5}, {"sha256": SHA256, "md5": MD5}]
)
def test_download_is_verified(server: Server, tmp_path: Path, sums: dict[str, str]) -> None:
    target = tmp_path / "raw" / "archive"
    source = Source(place=server.url, **sums)
    assert fetch((source,), target, "birds") == source
    assert target.read_bytes() == CONTENT
    assert names(target.parent) == ["archive"]


@pytest.mark.parametrize("sums", [{}, {"sha256": SHA256}])
def test_broken_download_goes_on_where_it_ended(server: Server, tmp_path: Path, sums: dict[str, str]) -> None:
    source, target = Source(place=server.url, **sums), tmp_path / "archive"
    server.breaks = [1_000_000, 500_000]
    for have in (1_000_000, 1_500_000):
        with pytest.raises(
            UserError, match=f"ended after {have} of 3000000 bytes; the same command goes on there"
        ):
            fetch((source,), target, "birds")
        assert not target.exists()
    fetch((source,), target, "birds")
    assert target.read_bytes() == CONTENT
    assert server.asked == [None, "bytes=1000000-", "bytes=1500000-"]
    assert names(tmp_path) == ["archive"]


def test_server_that_cannot_resume_starts_again(server: Server, tmp_path: Path) -> None:
    source, target = Source(place=server.url, sha256=SHA256), tmp_path / "archive"
    server.breaks, server.ranges = [1_000_000], False
    with pytest.raises(UserError, match="ended after 1000000"):
        fetch((source,), target, "birds")
    fetch((source,), target, "birds")
    assert target.read_bytes() == CONTENT


def test_download_that_was_complete_but_not_yet_moved_is_used(server: Server, tmp_path: Path) -> None:
    source, target = Source(place=server.url, sha256=SHA256), tmp_path / "archive"
    server.breaks = [1]
    with pytest.raises(UserError):
        fetch((source,), target, "birds")
    (partial,) = tmp_path.iterdir()
    partial.write_bytes(CONTENT)
    fetch((source,), target, "birds")
    assert target.read_bytes() == CONTENT


def test_another_place_does_not_continue_the_first_ones_download(server: Server, tmp_path: Path) -> None:
    target = tmp_path / "archive"
    server.breaks = [1_000_000]
    with pytest.raises(UserError):
        fetch((Source(place=server.url + "?mirror"), Source(place=server.url + "/none")), target, "birds")
    fetch((Source(place=server.url),), target, "birds")
    assert target.read_bytes() == CONTENT
    assert server.asked[-1] is None


def test_wrong_checksum_deletes_the_download_and_keeps_the_old_archive(
    server: Server, tmp_path: Path
) -> None:
    target = tmp_path / "archive"
    target.write_bytes(b"old")
    wrong, right = Source(place=server.url, sha256="0" * 64), Source(place=server.url, sha256=SHA256)
    with pytest.raises(UserError, match=rf"wrong checksum \(sha256 {SHA256}, expected 000") as told:
        fetch((wrong, right), target, "birds")  # never a fallback: somebody may have tampered with the file
    assert server.url in str(told.value)
    assert target.read_bytes() == b"old"
    assert names(tmp_path) == ["archive"]


def test_first_place_that_works_is_used(server: Server, tmp_path: Path) -> None:
    places = (f"{server.url}/none", str(tmp_path / "absent.tgz"), server.url)
    used = fetch(tuple(Source(place=p) for p in places), tmp_path / "archive", "birds")
    assert used.place == server.url


def test_all_that_was_tried_is_listed_with_a_way_out(server: Server, tmp_path: Path) -> None:
    url = server.url
    missing = Source(place=f"{url}/none", md5="f" * 32)
    closed = Source(place="http://127.0.0.1:9/archive")
    absent = Source(place=str(tmp_path / "absent.tgz"))
    with pytest.raises(UserError) as told:
        fetch((missing, closed, absent), tmp_path / "archive", "birds")
    text = str(told.value)
    assert f"{url}/none: HTTP Error 404" in text
    assert "http://127.0.0.1:9/archive: " in text
    assert "absent.tgz: no such file or folder" in text
    assert "(md5 ffff" in text
    assert "datasets.birds.options.source" in text
    assert "python -m bgbias fetch birds" in text
    assert names(tmp_path) == []


def test_local_file_is_copied_and_verified(tmp_path: Path) -> None:
    origin, target = tmp_path / "origin.tgz", tmp_path / "raw" / "archive"
    origin.write_bytes(CONTENT)
    fetch((Source(place=str(origin), sha256=SHA256),), target, "birds")
    assert target.read_bytes() == CONTENT
    with pytest.raises(UserError, match="wrong checksum"):
        fetch((Source(place=str(origin), md5="0" * 32),), target, "birds")
    assert target.read_bytes() == CONTENT
    assert origin.read_bytes() == CONTENT


def test_folder_becomes_the_same_archive_every_time(tmp_path: Path) -> None:
    picture = images.encode_png(seeds.generator("x").integers(0, 256, (4, 4, 3), dtype="uint8"))
    wanted = ["a/1.png", "a/2.PNG", "b/c/3.jpeg"]
    for number, order in enumerate((wanted, wanted[::-1])):
        folder = tmp_path / f"photos{number}"
        for name in [*order, "a/notes.txt", ".hidden/4.png", "a/._1.png", "__MACOSX/a/1.png"]:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(picture)
            os.utime(folder / name, (number, number))
        fetch((Source(place=str(folder)),), tmp_path / f"archive{number}", "birds")
    assert (tmp_path / "archive0").read_bytes() == (tmp_path / "archive1").read_bytes()
    assert list(members(tmp_path / "archive0", lambda name: True)) == [(name, picture) for name in wanted]


def test_folder_without_pictures_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"empty holds no pictures \(\.jpg, "):
        fetch((Source(place=str(tmp_path / "empty")),), tmp_path / "archive", "birds")
