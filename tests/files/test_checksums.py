"""What files hold is read once; a database that is damaged, missing or written by several processes costs time alone."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from bgbias.files import checksums


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    for number in range(40):
        path = folder / f"class{number % 4}" / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"%d" % number)
    return folder


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What was read, of files that need not lie still before they are remembered."""
    paths: list[bytes] = []
    whole = checksums._sha256
    monkeypatch.setattr(checksums, "SETTLED", -(10**10))
    monkeypatch.setattr(checksums, "_sha256", lambda path: paths.append(path) or whole(path))
    return paths


def known(photos: Path) -> dict[bytes, str]:
    return checksums.sha256_of(dict(checksums.walk(os.fsencode(photos))), database(photos))


def database(photos: Path) -> Path:
    return photos.parent / "work" / "known.sqlite"


def truth(photos: Path) -> dict[bytes, str]:
    files = [p for p in photos.rglob("*") if p.is_file()]
    return {os.fsencode(p): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def test_every_file_is_read_once(photos: Path, read: list[bytes]) -> None:
    assert known(photos) == truth(photos)
    assert len(read) == 40
    read.clear()
    assert known(photos) == truth(photos)
    assert read == []
    edited = photos / "class1" / "1.jpg"
    edited.write_bytes(b"x")
    assert known(photos) == truth(photos)
    assert read == [os.fsencode(edited)]


def test_what_changed_a_moment_ago_is_not_remembered(photos: Path) -> None:
    """It may change again within one tick of the disk's clock."""
    known(photos)
    assert not database(photos).exists()


@pytest.mark.parametrize("damage", [b"no database", b"", None])
def test_damage_costs_time_alone(photos: Path, read: list[bytes], damage: bytes | None) -> None:
    known(photos)
    whole = database(photos).read_bytes()
    database(photos).write_bytes(whole[:4096] + bytes(len(whole) - 4096) if damage is None else damage)
    for _ in range(2):
        assert known(photos) == truth(photos)
    read.clear()
    assert known(photos) == truth(photos)
    assert read == []


def test_an_edit_that_left_size_and_times_is_found_when_all_is_forgotten(
    photos: Path, read: list[bytes]
) -> None:
    before = known(photos)
    edited = photos / "class2" / "2.jpg"
    edited.write_bytes(b"x")
    stat = edited.stat()
    as_if = f"{stat.st_size} {stat.st_mtime_ns} {stat.st_ctime_ns} {stat.st_ino}"
    with sqlite3.connect(database(photos)) as connection:
        connection.execute("UPDATE files SET identity = ? WHERE path = ?", (as_if, os.fsencode(edited)))
    assert known(photos) == before
    checksums.forget(database(photos))
    assert known(photos) == truth(photos) != before


AT_ONCE = """
import os, sys
from pathlib import Path
from bgbias.files import checksums
checksums.SETTLED, checksums.CHUNK = -10**10, 1
photos, database = map(Path, sys.argv[1:])
found = checksums.sha256_of(dict(checksums.walk(os.fsencode(photos))), database)
print(len(found), len(set(found.values())))
"""


def test_processes_may_write_at_once(photos: Path, read: list[bytes]) -> None:
    words = [sys.executable, "-c", AT_ONCE, str(photos), str(database(photos))]
    environment = os.environ | {"PYTHONPATH": str(Path(checksums.__file__).parents[2])}
    others = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment) for _ in range(4)]
    assert [other.communicate()[0] for other in others] == ["40 40\n"] * 4
    assert known(photos) == truth(photos)
    assert read == []


def test_a_file_that_cannot_be_read_stops_no_planning(photos: Path, read: list[bytes]) -> None:
    gone = photos / "class0" / "0.jpg"
    files = dict(checksums.walk(os.fsencode(photos)))
    gone.unlink()
    assert checksums.sha256_of(files, database(photos))[os.fsencode(gone)] == "?"
