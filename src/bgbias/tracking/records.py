"""Records and histories as a reader of MLflow sees them: one entry a node, and one a model that joins its nodes' results.

Files in, values out; MLflow itself is not here.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from bgbias.files import sealed
from bgbias.tracking import dvc, looks
from bgbias.tracking.entries import (
    CELL_PARAMS,
    Collection,
    Entry,
    Stamp,
    collection,
    collections_of,
    entry_of,
    is_small,
    stamp,
)

RECORD = re.compile(r"[^.].*\.json")

NODE = "cell"
# What the nodes of a model are made of, the first that is there.
BEGINNINGS = ("train", "embed")
# What stands there instead of a model for a backbone's own features, which nothing was trained for.
UNTRAINED = frozenset({"backbone", "index", "pretrain", "weights"})
# Told of each node; of the model: all of its seconds, the most of its memory.
OF_NODES = frozenset({"seconds", "peak_memory_mb"})
# How many photos were seen is said by the nodes that saw them.
COUNTS = frozenset({"photos", "photos_without_trusted_mask"})
TAGS = (
    "grid",
    "subject",
    "git_commit",
    "mlflow.source.git.commit",
    "mlflow.source.type",
    looks.COLOUR,
    *CELL_PARAMS,
)

log = logging.getLogger("bgbias.tracking")


class Records:
    """The entries below some folders; a record is read again only when its file has changed."""

    def __init__(self, folders: Iterable[Path], grid: str, root: Path = Path()) -> None:
        """``root``: the project's folder, where ``dvc.lock`` lies and from which records name files."""
        self.grid, self._root = grid, root
        self.unreadable: dict[Path, Stamp] = {}
        self._folders = tuple(folders)
        self._read: dict[Path, _Read] = {}
        self._lock: Stamp = None
        self._forget()

    def _forget(self) -> None:
        """What was made of the records, each piece with that which it was made of."""
        self._entries: dict[str, Entry] | None = None
        self._collections: dict[str, Collection] = {}
        self._finished: dict[str, Entry] = {}
        self._nodes: dict[str, tuple[Entry, Entry]] = {}
        self._readers: dict[str, set[str]] = {}
        self._models: dict[str, tuple[list[Entry], Entry | None]] = {}

    def entries(self) -> dict[str, Entry]:
        """The latest entry of each of the grid's nodes by key, oldest first, then the models'; a damaged record is skipped
        with a warning. What did not change is the same object as the last time.
        """
        paths = [path for folder in self._folders for path in _records_below(folder)]
        lock = stamp(self._root / "dvc.lock")
        if lock != self._lock:
            self._forget()
        self._lock = lock
        gone = self._read.keys() - set(paths)
        for path in gone:
            del self._read[path]
        changed = [path for path in paths if self._look(path)]
        if self._entries is None or gone or changed:
            self._entries = self._together(paths)
        return self._entries

    def _together(self, paths: Iterable[Path]) -> dict[str, Entry]:
        latest: dict[str, Entry] = {}
        finished: dict[str, Entry] = {}
        found: dict[str, Collection] = {}
        makers: dict[tuple[str, str], Path] = {}
        for path in paths:
            read = self._read[path]
            entry = read.now
            if entry is None:
                continue
            if entry.status == "FINISHED":
                finished[entry.digest] = entry
                if read.collection:
                    found[entry.digest] = read.collection
                if self._lock:
                    makers.update(dict.fromkeys(read.outputs, path))
            if read.grid in (None, "", self.grid) and (
                entry.key not in latest or _order(entry) > _order(latest[entry.key])
            ):
                latest[entry.key] = entry
        if found != self._collections:
            self._nodes.clear()
        for digest in finished.keys() ^ self._finished.keys():
            for key in self._readers.pop(digest, ()):
                self._nodes.pop(key, None)
        self._collections, self._finished = found, finished
        for key, entry in latest.items():
            before = self._nodes.get(key)
            if before is None or before[0] is not entry:
                tags = entry.tags | (dvc.tags(self._root, entry.inputs, makers) if self._lock else {})
                datasets, behind = collections_of(entry, finished, found)
                before = self._nodes[key] = entry, replace(entry, tags=tags, datasets=datasets)
                for digest in behind:
                    self._readers.setdefault(digest, set()).add(key)
            latest[key] = before[1]
        nodes = dict(sorted(latest.items(), key=lambda item: (item[1].started, item[0])))
        return nodes | cell_runs(nodes.values(), self._models)

    def _look(self, path: Path) -> bool:
        """Whether a record, or what grows beside it, is another one than at the last look."""
        now, before = stamp(path), self._read.get(path)
        read = before
        if read is None or read.stamp != now:
            try:
                read = _parsed(path, now)
                self.unreadable.pop(path, None)
            except (OSError, KeyError, TypeError, ValueError) as error:
                read = _Read(now)
                # None: the file vanished between listing and reading, as running records do.
                if now is not None:
                    self.unreadable[path] = now
                    log.warning("not a whole record, so not shown in MLflow: %s (%r)", path, error)
        entry = read.entry.now(now) if read.entry else None
        same = before is not None and before.now == entry
        self._read[path] = replace(read, now=before.now if before and same else entry)
        return not same


def _records_below(folder: Path) -> Iterator[Path]:
    """Every record below a folder, by name; what is hidden is unfinished."""
    for place, below, files in os.walk(folder):
        below[:] = sorted(name for name in below if not name.startswith("."))
        yield from (Path(place, name) for name in sorted(files) if RECORD.fullmatch(name))


@dataclass(frozen=True)
class _Read:
    """What is kept of a record: what it says, and how that stands at this moment."""

    stamp: Stamp
    entry: Entry | None = None
    grid: str | None = None
    collection: Collection | None = None
    outputs: tuple[tuple[str, str], ...] = ()
    now: Entry | None = None


def cell_runs(
    entries: Iterable[Entry], before: dict[str, tuple[list[Entry], Entry | None]] | None = None
) -> dict[str, Entry]:
    """The entries of the models whose nodes are among these, by key. ``before``: what the last call made, and of which nodes."""
    nodes: dict[str, dict[str, Entry]] = {}
    known = {} if before is None else before
    for entry in entries:
        if entry.of_a_model:
            nodes.setdefault(entry.tags["subject"], {})[entry.node] = entry
    made: dict[str, Entry] = {}
    for subject, found in nodes.items():
        of, joined = known.get(subject, ([], None))
        if len(of) != len(found) or any(a is not b for a, b in zip(of, found.values(), strict=True)):
            joined = _joined(_belonging(found))
            known[subject] = [*found.values()], joined
        if joined:
            made[joined.key] = joined
    return made


def _belonging(nodes: dict[str, Entry]) -> list[Entry]:
    """The nodes that build on one another: all that are made of the training, or of the embeddings, or of what is."""
    chain = [nodes[name] for name in BEGINNINGS if name in nodes][:1]
    waiting = [entry for entry in nodes.values() if entry not in chain]
    while more := [entry for entry in waiting if _is_of(entry, chain)]:
        chain += more
        waiting = [entry for entry in waiting if entry not in more]
    return chain


def _is_of(entry: Entry, chain: list[Entry]) -> bool:
    """Whether a node is of the same model as those of the chain."""
    if not entry.upstream.keys().isdisjoint(BEGINNINGS):
        digests = {below.digest for below in chain}
        return any(entry.upstream.get(name) in digests for name in BEGINNINGS)
    # A backbone as it comes has no training to be known by.
    return bool(chain) and chain[0].node == "embed" and _untrained(entry) == _untrained(chain[0])


def _untrained(entry: Entry) -> dict[str, str]:
    """What a node's record says of the backbone and the photos that it was made of."""
    of_record = entry.upstream | entry.params
    return {k: v for k, v in of_record.items() if k.partition(".")[0] in UNTRAINED}


def _joined(chain: list[Entry]) -> Entry | None:
    if not chain:
        return None
    first = chain[0]
    params = {k: v for entry in reversed(chain) for k, v in entry.params.items() if k != "metrics"}
    metrics = looks.named({k: v for e in chain for k, v in e.metrics.items() if k not in OF_NODES | COUNTS})
    spent = [entry.metrics["seconds"] for entry in chain if "seconds" in entry.metrics]
    if spent:
        metrics["seconds"] = sum(spent)
        metrics["peak_memory_mb"] = max(e.metrics["peak_memory_mb"] for e in chain if "seconds" in e.metrics)
    found = {entry.status for entry in chain}
    status = next((s for s in ("RUNNING", "FAILED", "KILLED") if s in found), "FINISHED")
    ended = [entry.finished for entry in chain if entry.finished]
    digests = {entry.node: entry.digest for entry in chain}
    title = first.name.removeprefix(f"{first.node} ")
    return replace(
        first,
        key=first.key.replace(f"/{first.node}/", f"/{NODE}/", 1),
        node=NODE,
        name=title,
        # Of what it was made of first: what is found of the same model later is added to its run.
        digest=hashlib.sha256(f"{NODE} {first.digest}".encode()).hexdigest()[:16],
        status=status,
        finished=max(ended) if ended and status != "RUNNING" else None,
        params=params | {"node": NODE},
        tags={k: first.tags[k] for k in TAGS if k in first.tags}
        | {"node": NODE, "mlflow.source.name": "bgbias", "upstream": json.dumps(digests, sort_keys=True)}
        | looks.described(title, metrics, first.tags.get("grid", "")),
        metrics=metrics,
        model=None,
        vitals=None,
        process=None,
        as_tables=True,
        pictures=tuple(path for entry in chain for path in entry.tables if is_small(path)),
        growth=(first.growth[0], None),
    )


def _parsed(path: Path, now: Stamp) -> _Read:
    record = sealed.read(path)
    if not isinstance(record, dict) or not {"node", "status"} <= record.keys():
        return _Read(now)
    made = tuple((record.get("outputs") or {}).items())
    return _Read(now, entry_of(record), record.get("grid"), collection(record), made)


def _order(entry: Entry) -> tuple[int, bool]:
    # A node's running record and its final one bear the same start: the final one says more.
    return entry.started, entry.status != "RUNNING"
