"""Checksums that nobody publishes: the sha256 of the first copy seen, which every later copy must have.

``data/checksums.csv`` is small and meant to be committed, so that all who work on a study have the same files.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path

from bgbias.errors import UserError
from bgbias.files.atomic import write_text
from bgbias.files.hashes import checksum, forget, sha256
from bgbias.files.locks import locked

__all__ = ["Checksums", "checksum", "forget", "sha256"]
COLUMNS = ("dataset", "part", "file", "bytes", "sha256")
Key = tuple[str, str, str]


@dataclass(frozen=True)
class Checksums:
    """The pinned files of a project; ``lock`` keeps two fetches from writing at once."""

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

    def _read(self) -> dict[Key, tuple[str, str]]:
        if not self.path.exists():
            return {}
        with self.path.open(encoding="utf-8", newline="") as file:
            rows = csv.DictReader(file)
            if tuple(rows.fieldnames or ()) != COLUMNS:
                raise UserError(
                    f"{self.path} must have the columns {', '.join(COLUMNS)}; restore it or delete it."
                )
            return {(r["dataset"], r["part"], r["file"]): (r["bytes"], r["sha256"]) for r in rows}

    def _write(self, pinned: dict[Key, tuple[str, str]]) -> None:
        text = io.StringIO()
        rows = csv.writer(text, lineterminator="\n")
        rows.writerow(COLUMNS)
        rows.writerows([*key, *pinned[key]] for key in sorted(pinned))
        write_text(self.path, text.getvalue())
