"""Records and histories as a reader of MLflow sees them: one entry a node, and one a model that joins its nodes' results.

Files in, values out; MLflow itself is not here.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from bgbias.tracking.collections_read import collection, collections_of
from bgbias.tracking.dvc import Versions
from bgbias.tracking.entries import Collection, Entry, Stamp, entry_of, stamp
from bgbias.tracking.model_runs import cell_runs

RECORD = re.compile(r"[^.].*\.json")

log = logging.getLogger("bgbias.tracking")


class Records:
    """The entries below some folders; a record is read again only when its file has changed."""

    def __init__(self, folders: Iterable[Path], grid: str, root: Path = Path()) -> None:
        """``root``: the project's folder, where ``dvc.lock`` lies and from which records name files."""
        self.folders = tuple(folders)
        self.grid = grid
        self.unreadable: dict[Path, Stamp] = {}
        self._versions = Versions(root)
        self._read: dict[Path, tuple[Stamp, dict[str, Any], Entry | None]] = {}

    def entries(self) -> dict[str, Entry]:
        """The latest entry of each of the grid's nodes by key, oldest first, then the models'; a damaged record is skipped
        with a warning.
        """
        latest: dict[str, Entry] = {}
        finished: dict[str, Entry] = {}
        found: dict[str, Collection] = {}
        makers: dict[tuple[str, str], Path] = {}
        for path in self._paths():
            record, entry = self._record(path)
            if entry is None:
                continue
            if entry.status == "FINISHED":
                finished[entry.digest] = entry
                found |= {entry.digest: made} if (made := collection(record)) else {}
                makers |= {made: path for made in (record.get("outputs") or {}).items()}
            if record.get("grid") in (None, "", self.grid) and (
                entry.key not in latest or _order(entry) > _order(latest[entry.key])
            ):
                latest[entry.key] = entry
        for key, entry in latest.items():
            tags = entry.tags | self._versions.tags(entry.inputs, makers)
            latest[key] = replace(entry, tags=tags, datasets=collections_of(entry, finished, found))
        nodes = dict(sorted(latest.items(), key=lambda item: (item[1].started, item[0])))
        return nodes | cell_runs(nodes.values())

    def _paths(self) -> Iterator[Path]:
        # What is hidden is unfinished: temporary siblings of records being written, parts of a store.
        for folder in self.folders:
            for where, below, names in os.walk(folder):
                below[:] = sorted(name for name in below if not name.startswith("."))
                yield from (Path(where, name) for name in sorted(names) if RECORD.fullmatch(name))

    def _record(self, path: Path) -> tuple[dict[str, Any], Entry | None]:
        now = stamp(path)
        if path not in self._read or self._read[path][0] != now:
            try:
                self._read[path] = (now, *_parsed(path))
                self.unreadable.pop(path, None)
            except (OSError, KeyError, TypeError, ValueError) as error:
                self._read[path] = (now, {}, None)
                # None: the file vanished between listing and reading, as running records do.
                if now is not None:
                    self.unreadable[path] = now
                    log.warning("not a whole record, so not shown in MLflow: %s (%r)", path, error)
        _, record, entry = self._read[path]
        return record, entry.now(now) if entry else None


def _parsed(path: Path) -> tuple[dict[str, Any], Entry | None]:
    record = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(record, dict) or not {"node", "status"} <= record.keys():
        return {}, None
    return record, entry_of(record)


def _order(entry: Entry) -> tuple[int, bool]:
    # A node's running record and its final one bear the same start: the final one says more.
    return entry.started, entry.status != "RUNNING"
