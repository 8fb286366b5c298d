"""Which files lie below some folders, asked again and again: a folder is read anew only when its time says that it changed."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

# Nanoseconds: what changed a moment before it was read may change again within one tick of the disk's clock.
SETTLED = 10**9


@dataclass
class _Folder:
    """What was found in it, and its time of then; 0 where it is to be read again."""

    time: int
    files: list[Path] = field(default_factory=list)
    below: list[str] = field(default_factory=list)


class Folders:
    """Files of some name below some folders. What is hidden is unfinished, and is not looked at."""

    def __init__(self, folders: Sequence[Path], name: re.Pattern[str]) -> None:
        self.folders, self.name = folders, name
        self._found: dict[str, _Folder] = {}

    def files(self) -> tuple[list[Path], set[Path]]:
        """All that are there, sorted folder by folder; and those in folders whose content has changed since the last time."""
        before, self._found = self._found, {}
        every: list[Path] = []
        changed: set[Path] = set()
        for folder in map(str, self.folders):
            for found, anew in self._walk(folder, before):
                every += found.files
                if anew:
                    changed.update(found.files)
        return every, changed

    def _walk(self, folder: str, before: dict[str, _Folder]) -> Iterator[tuple[_Folder, bool]]:
        try:
            now = os.stat(folder).st_mtime_ns  # noqa: PTH116  # thousands of them, every two seconds
        except OSError:
            return
        found = before.get(folder)
        if anew := found is None or found.time != now:
            found = self._read(folder, now)
        self._found[folder] = found
        yield found, anew
        for name in found.below:
            yield from self._walk(name, before)

    def _read(self, folder: str, changed: int) -> _Folder:
        found = _Folder(changed if changed + SETTLED < time.time_ns() else 0)
        try:
            with os.scandir(folder) as entries:
                for entry in sorted(entries, key=lambda entry: entry.name):
                    if entry.name.startswith("."):
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        found.below.append(entry.path)
                    elif self.name.fullmatch(entry.name):
                        found.files.append(Path(entry.path))
        except OSError:  # gone in the meantime
            found.time = 0
        return found
