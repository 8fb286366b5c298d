"""What planning takes to know a folder's photos by their content, once they have been read, against looking at them alone."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks import Contender, Figure, Measured
from benchmarks._project import scratch_folder
from bgbias.files import checksums
from bgbias.files.checksums import fingerprint

OURS, BY_SIZE, SCAN = "by content, remembered", "by name and size alone (pathlib)", "os.scandir and stat"
CLASSES, PHOTOS = 200, 750


def contenders(device: str, tiny: bool) -> Iterator[Contender]:
    folder = scratch_folder()
    photos, database = folder / "photos", folder / "known.sqlite"
    for label in range(2 if tiny else CLASSES):
        (photos / str(label)).mkdir(parents=True)
        for number in range(3 if tiny else PHOTOS):
            (photos / str(label) / f"{number}.jpg").write_bytes(os.urandom(64))
    time.sleep(checksums.SETTLED / 1e9)  # what has just been written is not remembered
    fingerprint(str(photos), database)

    def ours() -> str:
        fingerprint.cache_clear()
        return fingerprint(str(photos), database)

    yield Contender(OURS, "ours", ours)
    yield Contender(BY_SIZE, "peer", lambda: _by_size(photos))
    yield Contender(SCAN, "limit", lambda: _scan(photos))


def judge(measured: Measured) -> list[Figure]:
    return [
        measured.ratio("times as fast as by name and size", BY_SIZE, OURS, at_least=1),
        measured.ratio("by scandir and stat alone", OURS, SCAN),
        Figure("by content, remembered", measured.seconds[OURS], unit="s"),
    ]


def _scan(folder: Path) -> int:
    with os.scandir(folder) as entries:
        return sum(_scan(Path(e.path)) if e.is_dir() else e.stat().st_size for e in entries)


def _by_size(folder: Path) -> str:
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    text = "\n".join(f"{p.relative_to(folder).as_posix()} {p.stat().st_size}" for p in files)
    return hashlib.sha256(text.encode()).hexdigest()
