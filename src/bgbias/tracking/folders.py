"""Which files lie below some folders, asked again and again: a folder is read anew only when its time says that it changed."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
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
        """All that are there, folder by folder; and those in folders whose content has changed since the last time."""
        before, self._found = self._found, {}
        every: list[Path] = []
        changed: set[Path] = set()
        waiting = [str(folder) for folder in reversed(self.folders)]
        while waiting:
            folder = waiting.pop()
            try:
                now = os.stat(folder).st_mtime_ns  # noqa: PTH116  # of thousands, every two seconds
            except OSError:
                continue
            found = before.get(folder)
            if found is None or found.time != now:
                found = self._read(folder, now)
                changed.update(found.files)
            self._found[folder] = found
            every += found.files
            waiting += found.below
        return every, changed

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
