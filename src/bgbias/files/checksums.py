"""SHA-256 of files, each read once as long as its path, size, times and inode stay the same; and the
checksums that a project pins.

A process remembers what it read (``sha256``). Collections of photos may have millions of files, so a
small database among unfinished work remembers theirs between processes (``sha256_of``). Several processes
may write it; one that is missing, locked or damaged costs time alone. ``forget`` has every file read
again: an edit may leave a file's size and, on some disks, its times as they were.
"""

import csv
import hashlib
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import cache
from io import StringIO
from pathlib import Path

from bgbias import progress
from bgbias.errors import UserError
from bgbias.files.atomic import write_text
from bgbias.files.locks import locked

CREATE = "CREATE TABLE IF NOT EXISTS files (path BLOB PRIMARY KEY, identity TEXT, sha256 TEXT) WITHOUT ROWID"
PATIENCE = 30.0  # seconds that one process waits for another to write
# Nanoseconds: what changed a moment before it was read may change again within one tick of the disk's clock.
SETTLED = 2 * 10**9
CHUNK = 1000  # files between two looks at the database: an interruption loses no more
WORTH_A_WORD = 2 * 10**9  # bytes
COLUMNS = ("dataset", "part", "file", "bytes", "sha256")  # of data/checksums.csv


def sha256(path: Path) -> str:
    """Hex digest of a file's bytes."""
    return checksum(path, "sha256")


def checksum(path: Path, algorithm: str) -> str:
    """The same by another algorithm of ``hashlib``."""
    stat = path.stat()
    return _checksum(path, algorithm, _identity(stat))


@cache
def _checksum(path: Path, algorithm: str, identity: str) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest()


def walk(folder: bytes, above: tuple[bytes, ...] = ()) -> Iterator[tuple[bytes, os.stat_result]]:
    """Every file below a folder, in links to folders too, by its path. What links lead back to (``above``) is not begun again."""
    with suppress(PermissionError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir() and not entry.is_symlink():
                yield from walk(entry.path, above)
            elif entry.is_dir():
                target, way = os.path.realpath(entry.path) + b"/", (*above, os.path.realpath(folder) + b"/")
                if not any(place.startswith(target) for place in way):
                    yield from walk(entry.path, way)
            elif entry.is_file():
                yield entry.path, entry.stat()


def sha256_of(files: Mapping[bytes, os.stat_result], database: Path) -> dict[bytes, str]:
    """The SHA-256 of files, by their paths (absolute) as ``files`` has them; ``?`` for one that cannot be read."""
    wanted = {path: _identity(stat) for path, stat in files.items()}
    found = {
        path: sha for path, identity, sha in _remembered(wanted, database) if wanted.get(path) == identity
    }
    new = [path for path in wanted if path not in found]
    if (size := sum(files[path].st_size for path in new)) > WORTH_A_WORD:
        progress.say(f"reads {len(new):,} new files ({progress.size(size)}) once, to know them by content")
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as readers:
        for chunk in (new[start : start + CHUNK] for start in range(0, len(new), CHUNK)):
            now = time.time_ns()
            read = dict(zip(chunk, readers.map(_sha256, chunk), strict=True))
            found |= read
            settled = [p for p in chunk if files[p].st_ctime_ns + SETTLED < now and read[p] != "?"]
            _remember(((p, wanted[p], read[p]) for p in settled), database)
    return found


def forget(database: Path | None = None) -> None:
    """Have every file read again by whoever asks next."""
    _checksum.cache_clear()
    if database and database.exists():
        _asked(database, lambda files: files.execute("DELETE FROM files"))


def _identity(stat: os.stat_result) -> str:
    return f"{stat.st_size} {stat.st_mtime_ns} {stat.st_ctime_ns} {stat.st_ino}"


def _remembered(wanted: Mapping[bytes, str], database: Path) -> list[tuple[bytes, str, str]]:
    if not wanted or not database.exists():
        return []
    # All between the first and the last path: thousands of single questions would take longer.
    between = min(wanted), max(wanted)
    return _asked(
        database,
        lambda files: files.execute("SELECT * FROM files WHERE path BETWEEN ? AND ?", between),
    )


def _remember(rows: Iterable[tuple[bytes, str, str]], database: Path) -> None:
    if rows := list(rows):
        with suppress(OSError):
            database.parent.mkdir(parents=True, exist_ok=True)
            _asked(database, lambda files: files.execute(CREATE))
            _asked(
                database,
                lambda files: files.executemany("INSERT OR REPLACE INTO files VALUES (?, ?, ?)", rows),
            )


def _asked(database: Path, question: Callable[[sqlite3.Connection], sqlite3.Cursor]) -> list[tuple]:
    try:
        with closing(sqlite3.connect(database, timeout=PATIENCE)) as connection, connection:
            return question(connection).fetchall()
    except sqlite3.OperationalError:  # locked for long, or a disk without locks
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


@dataclass(frozen=True)
class Checksums:
    """Checksums that nobody publishes: the sha256 of the first copy seen, which every later copy must have.

    ``path`` (data/checksums.csv) is small and meant to be committed, so that all who work on a study have
    the same files; ``lock`` keeps two fetches from writing at once.
    """

    path: Path
    lock: Path

    def pin(self, dataset: str, part: str, file: str, size: int, sha256: str) -> None:
        """Write a file's checksum down, or compare it with the one written down; another one is an error with both."""
        key = (dataset, part, file)
        with locked(self.lock):
            pinned = self._read()
            if key not in pinned:
                self._write(pinned | {key: (str(size), sha256)})
            elif pinned[key] != (str(size), sha256):
                wanted_size, wanted = pinned[key]
                raise UserError(
                    f"{file} ({dataset}/{part}) is not the file that was used before: its sha256 is {sha256} ({size} bytes),"
                    f" and {self.path} has {wanted} ({wanted_size} bytes). Get the same file again; or, if the new one is right,"
                    f" delete its line from {self.path} and run: python -m bgbias fetch {dataset} {part}"
                )

    def _read(self) -> dict[tuple[str, ...], tuple[str, str]]:
        if not self.path.exists():
            return {}
        with self.path.open(encoding="utf-8", newline="") as file:
            rows = csv.DictReader(file)
            if tuple(rows.fieldnames or ()) != COLUMNS:
                raise UserError(
                    f"{self.path} must have the columns {', '.join(COLUMNS)}; restore it or delete it."
                )
            return {(r["dataset"], r["part"], r["file"]): (r["bytes"], r["sha256"]) for r in rows}

    def _write(self, pinned: dict[tuple[str, ...], tuple[str, str]]) -> None:
        text = StringIO()
        rows = csv.writer(text, lineterminator="\n")
        rows.writerow(COLUMNS)
        rows.writerows([*key, *pinned[key]] for key in sorted(pinned))
        write_text(self.path, text.getvalue())
