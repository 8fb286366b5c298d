"""What files hold is read once, and any edit of what lies outside the project's folders is noticed by content."""

import hashlib
import os
from pathlib import Path

import pytest
from miniatures import as_folder

from bgbias.errors import UserError
from bgbias.files import checksums
from bgbias.files.checksums import fingerprint
from bgbias.files.fetch import Source
from bgbias.study.sources import identity


class Photos:
    """A folder of photos, and what is remembered of them beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder = as_folder(folder / "photos", {f"class{n % 4}/{n}.jpg": b"%d" % n for n in range(8)})
        self.database = folder / "work" / "known.sqlite"

    def check_all_are_known(self) -> None:
        files = {os.fsencode(p): p.stat() for p in self.folder.rglob("*.jpg")}
        truth = {path: hashlib.sha256(Path(os.fsdecode(path)).read_bytes()).hexdigest() for path in files}
        assert checksums.sha256_of(files, self.database) == truth


@pytest.fixture
def photos(tmp_path: Path) -> Photos:
    return Photos(tmp_path)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What was read, of files that need not lie still before they are remembered."""
    paths: list[bytes] = []
    whole = checksums._sha256
    monkeypatch.setattr(checksums, "SETTLED", -(10**10))
    monkeypatch.setattr(checksums, "_sha256", lambda path: paths.append(path) or whole(path))
    return paths


def test_files_are_read_once_until_edited_or_forgotten(photos: Photos, read: list[bytes]) -> None:
    photos.check_all_are_known()
    assert len(read) == 8
    # Though size and times are as they were.
    edited = photos.folder / "class1" / "1.jpg"
    times = edited.stat().st_atime_ns, edited.stat().st_mtime_ns
    edited.write_bytes(b"x")
    os.utime(edited, ns=times)
    photos.check_all_are_known()
    assert read[8:] == [os.fsencode(edited)]
    checksums.forget(photos.database)
    photos.check_all_are_known()
    assert len(read) == 8 + 1 + 8


def test_what_changed_a_moment_ago_is_not_remembered(photos: Photos) -> None:
    """It may change again within one tick of the disk's clock."""
    photos.check_all_are_known()
    assert not photos.database.exists()


def test_damage_of_the_database_costs_time(photos: Photos, read: list[bytes]) -> None:
    photos.check_all_are_known()
    whole = photos.database.read_bytes()
    for damaged in (b"no database", whole[:4096] + bytes(len(whole) - 4096)):
        photos.database.write_bytes(damaged)
        photos.check_all_are_known()
        read.clear()
        photos.check_all_are_known()
        assert read == []


def test_a_file_that_cannot_be_read_stops_no_planning(photos: Photos) -> None:
    gone = os.fsencode(photos.folder / "0.jpg")
    assert checksums.sha256_of({gone: photos.folder.stat()}, photos.database) == {gone: "?"}


# Fingerprints of places.


def seen(place: Path) -> str:
    fingerprint.cache_clear()
    return fingerprint(str(place), place.parent / ".known.sqlite")


def test_a_place_is_known_by_names_below_it_alone_and_a_list_by_what_it_names(tmp_path: Path) -> None:
    files = {"a/1.png": b"a/1.png", "1.png": b"1.png", "list.txt": b"a/1.png\n1.png\nlater.png\n"}
    # A hidden place that somebody names is looked at, what systems add to it is not.
    here, there = (as_folder(tmp_path / name, files) for name in (".here", "there"))
    as_folder(here, dict.fromkeys((".DS_Store", "a/._1.png", "a/Thumbs.db", ".cache/2.png"), b"x"))
    assert seen(here) == seen(there)
    assert seen(here / "list.txt") == seen(there / "list.txt")
    for name, data in (("a/1.png", b"edited"), ("later.png", b"new")):
        before = seen(here), seen(here / "list.txt")
        (here / name).write_bytes(data)
        assert seen(here) != before[0]
        assert seen(here / "list.txt") not in (before[1], seen(there / "list.txt"))
    (there / "list.txt").write_bytes("für.png\n".encode("latin-1"))
    with pytest.raises(UserError, match=r"list\.txt .*not UTF-8.*save it as"):
        seen(there / "list.txt")


def test_a_checksum_vouches_for_a_file_and_not_for_a_folder(tmp_path: Path) -> None:
    (of_folder,) = identity((Source(place=str(tmp_path), sha256="0" * 64),))
    assert of_folder["listing"].place == str(tmp_path)
    assert identity((Source(place=f"{tmp_path}.zip", sha256="0" * 64),)) == [{"checksum": "0" * 64}]
