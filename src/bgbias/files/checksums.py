"""SHA-256 of files, each read once as long as its path, size, times and inode stay the same; and what lies at a local place
outside the project's own folders, as a digest sees it: by content, wherever it was edited.

A process remembers what it read (``sha256``). Collections of photos may have millions of files, so a
small database among unfinished work remembers theirs between processes (``sha256_of``). Several processes
may write it; one that is missing, locked or damaged costs time alone. ``forget`` has every file read
again: an edit may leave a file's size and, on some disks, its times as they were.
"""

import hashlib
import os
import sqlite3
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from bgbias import progress
from bgbias.files import json_checksum, pictures, places

CREATE = "CREATE TABLE IF NOT EXISTS files (path BLOB PRIMARY KEY, identity TEXT, sha256 TEXT) WITHOUT ROWID"
PATIENCE = 30.0  # seconds that one process waits for another to write
# Nanoseconds: what changed a moment before it was read may change again within one tick of the disk's clock.
SETTLED = 2 * 10**9
DIGITS = 16  # of fingerprints
CHUNK = 1000  # files between two looks at the database: an interruption loses no more
WORTH_A_WORD = 2 * 10**9  # bytes


def sha256(path: Path) -> str:
    """Hex digest of a file's bytes."""
    return checksum(path, "sha256")


def checksum(path: Path, algorithm: str) -> str:
    """The same by another algorithm of ``hashlib``."""
    return _checksum(path, algorithm, _identity(path.stat()))


@cache
def _checksum(path: Path, algorithm: str, identity: str) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest()


def sha256_of(files: Mapping[bytes, os.stat_result], database: Path) -> dict[bytes, str]:
    """The SHA-256 of files, by their paths (absolute) as ``files`` has them; ``?`` for one that cannot be read."""
    identities = {path: _identity(stat) for path, stat in files.items()}
    sums: dict[bytes, str] = {}
    if identities and database.exists():
        # All between the first and the last path: thousands of single questions would take longer.
        between = min(identities), max(identities)
        rows = _query(database, "SELECT * FROM files WHERE path BETWEEN ? AND ?", between)
        sums = {path: sha for path, identity, sha in rows if identities.get(path) == identity}
    new = [path for path in identities if path not in sums]
    if (size := sum(files[path].st_size for path in new)) > WORTH_A_WORD:
        progress.say(f"reads {len(new):,} new files ({progress.size(size)}) once, to know them by content")
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as readers:
        for chunk in (new[start : start + CHUNK] for start in range(0, len(new), CHUNK)):
            now = time.time_ns()
            read = dict(zip(chunk, readers.map(_sha256, chunk), strict=True))
            sums |= read
            if settled := [p for p in chunk if files[p].st_ctime_ns + SETTLED < now and read[p] != "?"]:
                rows = [(p, identities[p], read[p]) for p in settled]
                _query(database, "INSERT OR REPLACE INTO files VALUES (?, ?, ?)", *rows)
    return sums


@cache
def fingerprint(source: str, database: Path, only: frozenset[str] | None = None) -> str:
    """A fingerprint of what lies at a local place: of the names and the content of all its files; empty for a URL.

    A list of paths stands for its files too. Of a folder, hidden files are not looked at, since nobody takes them, and ``only``
    these, if they are named. ``database`` remembers what was read (``sha256_of``).
    """
    if "://" in source or not source:
        return ""
    root = places.source(source)
    files = {root.name: root} if root.is_file() else {}
    if root.is_dir():
        files = {name: path for name, path in pictures.walk(root)[0].items() if not pictures.is_hidden(name)}
    elif files and root.suffix in (".txt", ".lst"):
        files |= {line: path for line, path in pictures.read_list_file(root).items() if path.is_file()}
    if only is not None:
        files = {name: path for name, path in files.items() if pictures.compose(name) in only}
    absolute = {name: _absolute(path) for name, path in files.items()}
    sums = sha256_of({absolute[name]: path.stat() for name, path in files.items()}, database)
    text = "\n".join(sorted(f"{name} {sums[absolute[name]]}" for name in files))
    return hashlib.sha256(os.fsencode(text)).hexdigest()[:DIGITS]


@dataclass(frozen=True)
class Content:
    """A setting that stands for what lies at a place, by its ``fingerprint``. ``is_file``: by 16 hex digits of its SHA-256."""

    place: str
    only: frozenset[str] | None = None
    is_file: bool = False


def resolve(value: Any, recorded: Callable[[], Any], database: Path) -> Any:
    """Settings with what each ``Content`` in them is known by. Of a place that is elsewhere (in a clone whose data came from a
    remote) it is what was ``recorded`` there: what is not here cannot have changed.
    """
    if isinstance(value, Content):
        before = recorded() if elsewhere(value.place) else None
        if isinstance(before, str):
            return before
        if value.is_file:
            return _content_id(places.source(value.place), database)
        return fingerprint(value.place, database, value.only)
    if isinstance(value, dict):
        return {k: resolve(v, partial(_find, recorded, k), database) for k, v in value.items()}
    if isinstance(value, list):
        return [resolve(v, partial(_find, recorded, n), database) for n, v in enumerate(value)]
    return value


def _content_id(file: Path, database: Path) -> str:
    """A file by its content; empty for one that is not there."""
    if not file.is_file():
        return ""
    name = _absolute(file)
    return sha256_of({name: file.stat()}, database)[name][:DIGITS]


def _find(recorded: Callable[[], Any], key: Any) -> Any:
    with suppress(LookupError, TypeError):
        return recorded()[key]
    return None


def elsewhere(source: str | None) -> bool:
    """Whether a place is a local one that is not here, as in a clone whose data came from a remote."""
    return bool(source) and "://" not in str(source) and not places.source(str(source)).exists()


def read_recorded(record: Path) -> dict[str, Any]:
    """What a finished node had read: what is not here cannot have changed. Empty where there is no such record."""
    return dict(json_checksum.read_any(record).get("spec", {}))


def forget(database: Path | None = None) -> None:
    """Have every file read again by whoever asks next, whatever its size and times say."""
    _checksum.cache_clear()
    fingerprint.cache_clear()
    if database and database.exists():
        _query(database, "DELETE FROM files")


def _absolute(path: Path) -> bytes:
    return os.fsencode(path.absolute())


def _identity(stat: os.stat_result) -> str:
    return f"{stat.st_size} {stat.st_mtime_ns} {stat.st_ctime_ns} {stat.st_ino}"


def _query(database: Path, question: str, *rows: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """The answer to a question with these parameters; of several ``rows`` of them it is asked once for each, to write."""
    try:
        database.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(database, timeout=PATIENCE)) as files, files:
            files.execute(CREATE)
            if len(rows) > 1:
                return files.executemany(question, rows).fetchall()
            return files.execute(question, *rows).fetchall()
    except (OSError, sqlite3.OperationalError):  # locked for long, or a disk without locks
        return []
    except sqlite3.DatabaseError:  # damaged: begun anew
        database.unlink(missing_ok=True)
        return []


def _sha256(path: bytes) -> str:
    try:
        with open(path, "rb") as file:  # noqa: PTH123  # names need be no text
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:  # who wants to use it says so
        return "?"
