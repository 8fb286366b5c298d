"""An archive is fetched whole and verified, or not at all; all of it on this machine's own loopback."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from web import Server, serving

from bgbias import seeds
from bgbias.errors import UserError
from bgbias.files import download
from bgbias.files.archives import members
from bgbias.files.fetch import Desk, Source, fetch
from bgbias.images import pixels

CONTENT = seeds.generator("archive").bytes(3_000_000)
SHA256, MD5 = hashlib.sha256(CONTENT).hexdigest(), hashlib.md5(CONTENT).hexdigest()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(download, "PAUSES", ())
    with serving(CONTENT) as server:
        yield server


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    (tmp_path / "downloads").mkdir()
    return Desk(tmp_path / "downloads", tmp_path / "checksums.csv", tmp_path / "checksums.lock")


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


def test_download_that_broke_off_is_kept_for_the_same_command(server: Server, tmp_path: Path) -> None:
    source, target = Source(place=server.url, sha256=SHA256), tmp_path / "archive"
    server.breaks = [1_000_000]
    with pytest.raises(
        UserError, match=r"ended after 1000000 of 3000000 bytes; 1\.0 MB are kept, the same command"
    ):
        fetch((source,), target, "birds")
    assert not target.exists()
    fetch((source,), target, "birds")
    assert target.read_bytes() == CONTENT
    assert server.asked == [None, "bytes=1000000-"]
    assert names(tmp_path) == ["archive"]


def test_another_place_does_not_continue_the_first_ones_download(server: Server, tmp_path: Path) -> None:
    target = tmp_path / "archive"
    server.breaks = [1_000_000]
    with pytest.raises(UserError):
        fetch((Source(place=server.url + "?mirror"), Source(place=server.url + "/none")), target, "birds")
    fetch((Source(place=server.url),), target, "birds")
    assert target.read_bytes() == CONTENT
    assert server.asked[-1] is None


def test_begun_downloads_are_cleared_away_when_another_place_has_the_file(
    server: Server, tmp_path: Path
) -> None:
    server.breaks = [1_000_000]
    places = (server.url + "?mirror", server.url)
    with pytest.raises(UserError):
        fetch((Source(place=places[0]), Source(place=f"{server.root}/none")), tmp_path / "archive", "birds")
    (tmp_path / "own.tgz").write_bytes(CONTENT)
    sources = (Source(place=str(tmp_path / "own.tgz")), *(Source(place=p) for p in places))
    fetch(sources, tmp_path / "archive", "birds")
    assert names(tmp_path) == ["archive", "own.tgz"]


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


def test_mirror_of_the_same_file_is_tried_after_a_wrong_one_and_both_are_told(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(CONTENT[:-1] + b"?") as wrong:
        sources = tuple(Source(place=s.url, md5=MD5) for s in (wrong, server))
        assert fetch(sources, tmp_path / "archive", "birds") == sources[1]
        assert (tmp_path / "archive").read_bytes() == CONTENT
        said = capsys.readouterr().err
        assert f"taken from {server.url}" in said
        assert f"{wrong.url}: wrong checksum (md5 " in said
        assert names(tmp_path) == ["archive"]
        # Two wrong ones are both told, and what no check can tell is never taken in their place.
        server.content = CONTENT[:-2] + b"??"
        with pytest.raises(UserError) as told:
            fetch((*sources, Source(place=server.url + "?unchecked")), tmp_path / "other", "birds")
        assert f"{wrong.url}: wrong checksum" in str(told.value)
        assert f"{server.url}: wrong checksum" in str(told.value)
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
    assert "under datasets.birds.options" in text
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
    picture = pixels.encode_png(seeds.generator("x").integers(0, 256, (4, 4, 3), dtype="uint8"))
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


def test_file_that_a_person_fetched_comes_before_every_place(
    server: Server, tmp_path: Path, desk: Desk
) -> None:
    (desk.downloads / "birds.tgz").write_bytes(CONTENT)
    source, target = Source(place=server.url, file="birds.tgz", md5=MD5), tmp_path / "raw" / "photos"
    used = fetch((source,), target, "birds", part="photos", desk=desk)
    assert used.place == str(desk.downloads / "birds.tgz")
    assert target.read_bytes() == CONTENT
    assert server.asked == []
    assert target.samefile(desk.downloads / "birds.tgz")  # a gigabyte is not written twice


def test_file_that_a_person_fetched_is_copied_where_links_are_not_possible(
    tmp_path: Path, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*paths: object) -> None:
        raise OSError("Invalid cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    (desk.downloads / "birds.tgz").write_bytes(CONTENT)
    fetch((Source(file="birds.tgz", md5=MD5),), tmp_path / "photos", "birds", part="photos", desk=desk)
    assert (tmp_path / "photos").read_bytes() == CONTENT
    assert not (tmp_path / "photos").samefile(desk.downloads / "birds.tgz")


@pytest.mark.parametrize("content", [CONTENT[:-1], CONTENT[:-1] + b"?"])
def test_wrong_file_among_the_downloads_is_named_and_not_replaced_by_another_place(
    server: Server, tmp_path: Path, desk: Desk, content: bytes
) -> None:
    (desk.downloads / "birds.tgz").write_bytes(content)
    source = Source(place=server.url, file="birds.tgz", md5=MD5, size=len(CONTENT))
    with pytest.raises(
        UserError, match=r"downloads/birds\.tgz: (wrong checksum|2999999 bytes, expected 3000000)"
    ):
        fetch((source,), tmp_path / "photos", "birds", part="photos", desk=desk)
    assert not (tmp_path / "photos").exists()
    assert server.asked == []


def test_file_that_no_host_has_is_asked_of_the_person(tmp_path: Path, desk: Desk) -> None:
    source = Source(file="cars_annos.mat", md5="b" * 32, size=1234567)
    with pytest.raises(UserError) as told:
        fetch((source,), tmp_path / "annotations", "cars", part="annotations", desk=desk)
    text = str(told.value)
    assert "cars/annotations: cars_annos.mat could not be fetched" in text
    assert f"Get cars_annos.mat (1,234,567 bytes, md5 {'b' * 32}) by other means" in text
    assert f"put it into {desk.downloads}/ and then run: python -m bgbias fetch cars annotations" in text


def test_checksum_nobody_published_is_pinned_on_first_use(server: Server, tmp_path: Path, desk: Desk) -> None:
    source = Source(place=server.url, file="birds.zip")
    for _ in range(2):
        fetch((source,), tmp_path / "photos", "birds", part="photos", desk=desk)
        lines = desk.checksums.read_text().splitlines()
        assert lines == ["dataset,part,file,bytes,sha256", f"birds,photos,birds.zip,{len(CONTENT)},{SHA256}"]
    server.content = CONTENT[:-1] + b"?"
    other = hashlib.sha256(server.content).hexdigest()
    with pytest.raises(UserError) as told:
        fetch((source,), tmp_path / "photos", "birds", part="photos", desk=desk)
    assert SHA256 in str(told.value)
    assert other in str(told.value)
    assert str(desk.checksums) in str(told.value)
    assert (tmp_path / "photos").read_bytes() == CONTENT
    assert desk.checksums.read_text().splitlines() == lines
    # Deleting the line accepts the new file.
    desk.checksums.write_text(lines[0] + "\n")
    fetch((source,), tmp_path / "photos", "birds", part="photos", desk=desk)
    assert (tmp_path / "photos").read_bytes() == server.content


def test_published_checksum_and_own_files_are_not_pinned(server: Server, tmp_path: Path, desk: Desk) -> None:
    (tmp_path / "own.zip").write_bytes(CONTENT)
    fetch((Source(place=server.url, sha256=SHA256),), tmp_path / "a", "birds", part="photos", desk=desk)
    fetch((Source(place=str(tmp_path / "own.zip")),), tmp_path / "b", "birds", part="photos", desk=desk)
    assert not desk.checksums.exists()


def test_pins_of_several_files_stand_in_sorted_order(desk: Desk) -> None:
    for file in ("c", "a", "b"):
        desk.pin("birds", "photos", file, 1, file * 64)
    assert [line.split(",")[2] for line in desk.checksums.read_text().splitlines()[1:]] == [
        "a",
        "b",
        "c",
    ]
    desk.checksums.write_text("something else\n")
    with pytest.raises(UserError, match="must have the columns dataset, part, file, bytes, sha256"):
        desk.pin("birds", "photos", "d", 1, "d" * 64)


def test_users_own_file_is_not_shared_with_the_project(tmp_path: Path) -> None:
    (tmp_path / "own.csv").write_bytes(b"image,label")
    fetch((Source(place=str(tmp_path / "own.csv")),), tmp_path / "table", "mine", part="table")
    (tmp_path / "own.csv").open("ab").write(b",mask")
    assert (tmp_path / "table").read_bytes() == b"image,label"


def test_beginning_of_a_checksum_is_compared_and_the_whole_is_pinned(tmp_path: Path, desk: Desk) -> None:
    (desk.downloads / "net-1234.pth").write_bytes(CONTENT)
    source = Source(file="net-1234.pth", sha256=SHA256[:8])
    fetch((source,), tmp_path / "net", "net", part="net", desk=desk)
    assert SHA256 in desk.checksums.read_text()
    wrong = source.model_copy(update={"sha256": f"{int(SHA256[:8], 16) ^ 1:08x}"})
    with pytest.raises(UserError, match="wrong checksum"):
        fetch((wrong,), tmp_path / "net", "net", part="net", desk=desk)


def test_cure_of_what_is_no_dataset_is_told_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(UserError) as told:
        fetch(
            (Source(place=str(tmp_path / "gone")),), tmp_path / "net", "net", "Put it there; then run: this"
        )
    assert str(told.value).startswith("net could not be fetched.\n")
    assert str(told.value).endswith("\nPut it there; then run: this")


def test_ftp_is_told_to_be_unknown(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="only http and https"):
        fetch((Source(place="ftp://example.org/a.zip"),), tmp_path / "archive", "birds")


def test_of_a_folder_only_the_files_that_are_named_are_packed(tmp_path: Path) -> None:
    for name in ("a/1.jpg", "a/2.jpg", "b/3.jpg"):
        (tmp_path / "mine" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "mine" / name).write_bytes(b"x")
    source = Source(place=str(tmp_path / "mine"), names=frozenset({"a/2.jpg", "b/3.jpg", "gone.jpg"}))
    fetch((source,), tmp_path / "archive", "mine")
    assert [name for name, _ in members(tmp_path / "archive", lambda name: True)] == ["a/2.jpg", "b/3.jpg"]
    with pytest.raises(UserError, match=r"holds none of the 1 files that the table names, e\.g\. '3\.jpg'"):
        fetch((source.model_copy(update={"names": frozenset({"3.jpg"})}),), tmp_path / "archive", "mine")


def test_folder_keeps_the_files_that_a_layout_needs(tmp_path: Path) -> None:
    for name in ("images.txt", "notes.doc", "images/a.jpg", ".hidden.txt"):
        (tmp_path / "cub" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "cub" / name).write_bytes(b"x")
    fetch((Source(place=str(tmp_path / "cub"), keep=(".txt",)),), tmp_path / "archive", "birds")
    assert [name for name, _ in members(tmp_path / "archive", lambda name: True)] == [
        "images.txt",
        "images/a.jpg",
    ]
