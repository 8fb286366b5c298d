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
from dataclasses import replace
from pathlib import Path
from typing import Any

from bgbias.files import sealed
from bgbias.tracking import dvc
from bgbias.tracking.entries import (
    CELL_PARAMS,
    Collection,
    Entry,
    Stamp,
    collection,
    collections_of,
    entry_of,
    stamp,
)

RECORD = re.compile(r"[^.].*\.json")

NODE = "cell"
# What the nodes of a model are made of, the first that is there.
BEGINNINGS = ("train", "embed")
# What stands there instead of a model for a backbone's own features, which nothing was trained for.
UNTRAINED = frozenset({"backbone", "index", "weights"})
# Told of each node; of the model: all of its seconds, the most of its memory.
OF_NODES = frozenset({"seconds", "peak_memory_mb"})
# How many photos were seen is said by the nodes that saw them.
COUNTS = frozenset({"photos", "photos_without_trusted_mask"})
TAGS = ("grid", "subject", "git_commit", "mlflow.source.git.commit", "mlflow.source.type", *CELL_PARAMS)

log = logging.getLogger("bgbias.tracking")


class Records:
    """The entries below some folders; a record is read again only when its file has changed."""

    def __init__(self, folders: Iterable[Path], grid: str, root: Path = Path()) -> None:
        """``root``: the project's folder, where ``dvc.lock`` lies and from which records name files."""
        self.folders, self.grid, self._root = tuple(folders), grid, root
        self.unreadable: dict[Path, Stamp] = {}
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
            tags = entry.tags | dvc.tags(self._root, entry.inputs, makers)
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


def cell_runs(entries: Iterable[Entry]) -> dict[str, Entry]:
    """The entries of the models whose nodes are among these, by key."""
    nodes: dict[str, dict[str, Entry]] = {}
    for entry in entries:
        if entry.of_a_model:
            nodes.setdefault(entry.tags["subject"], {})[entry.node] = entry
    made = (_joined(_belonging(found)) for found in nodes.values())
    return {entry.key: entry for entry in made if entry}


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
    metrics = {k: v for e in chain for k, v in e.metrics.items() if k not in OF_NODES | COUNTS}
    spent = [entry.metrics["seconds"] for entry in chain if "seconds" in entry.metrics]
    if spent:
        metrics["seconds"] = sum(spent)
        metrics["peak_memory_mb"] = max(e.metrics["peak_memory_mb"] for e in chain if "seconds" in e.metrics)
    found = {entry.status for entry in chain}
    status = next((s for s in ("RUNNING", "FAILED", "KILLED") if s in found), "FINISHED")
    ended = [entry.finished for entry in chain if entry.finished]
    digests = {entry.node: entry.digest for entry in chain}
    return replace(
        first,
        key=first.key.replace(f"/{first.node}/", f"/{NODE}/", 1),
        node=NODE,
        name=first.name.removeprefix(f"{first.node} "),
        # Of what it was made of first: what is found of the same model later is added to its run.
        digest=hashlib.sha256(f"{NODE} {first.digest}".encode()).hexdigest()[:16],
        status=status,
        finished=max(ended) if ended and status != "RUNNING" else None,
        params=params | {"node": NODE},
        tags={k: first.tags[k] for k in TAGS if k in first.tags}
        | {"node": NODE, "mlflow.source.name": "bgbias", "upstream": json.dumps(digests, sort_keys=True)},
        metrics=metrics,
        model=None,
        history=None,
        epoch_seconds={},
        vitals=None,
        process=None,
        pictures=(),
        growth=(None, None),
    )


def _parsed(path: Path) -> tuple[dict[str, Any], Entry | None]:
    record = sealed.read(path)
    if not isinstance(record, dict) or not {"node", "status"} <= record.keys():
        return {}, None
    return record, entry_of(record)


def _order(entry: Entry) -> tuple[int, bool]:
    # A node's running record and its final one bear the same start: the final one says more.
    return entry.started, entry.status != "RUNNING"
