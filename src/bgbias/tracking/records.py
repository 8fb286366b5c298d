"""The records below some folders as MLflow shows them: one entry a step, and one a model that joins those of its steps."""

import json
import logging
import os
import platform
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from bgbias.files import sealed
from bgbias.files.code import hashed
from bgbias.tracking import views
from bgbias.tracking.entries import MODEL_RUN, Collection, Entry, entry_of

RECORD = re.compile(r"[^.].*\.json")
# What the other steps of a model are made of.
BEGINNINGS = ("train", "embed")
# What stands there instead of a model for a backbone's own features, which nothing was trained for.
UNTRAINED = frozenset({"backbone", "index", "pretrain", "weights"})
# Metrics of each step; a model's run has the sum of the seconds and the most of the memory.
OF_STEPS = frozenset({"seconds", "peak_memory_mb", "photos", "photos_without_trusted_mask"})
TAGS = (
    *("grid", "subject", "git_commit", "mlflow.source.git.commit", "mlflow.source.type"),
    *(views.COLOUR, *views.CELL_PARAMS),
)

# Modification time (ns) and size of a file, which change as it is written; None if it is absent.
Stamp = tuple[int, int] | None

log = logging.getLogger("bgbias.tracking")


@dataclass(frozen=True)
class _Read:
    """What a record shows, and the state of its file."""

    stamp: Stamp
    entry: Entry | None
    is_damaged: bool = False


class Records:
    """The entries below some folders; the record of a finished step is read again only when it has changed."""

    def __init__(self, folders: Iterable[Path], grid: str) -> None:
        self.grid = grid
        self._folders = tuple(folders)
        self._read: dict[Path, _Read] = {}
        self._entries: dict[str, Entry] = {}

    @property
    def unreadable(self) -> tuple[Path, ...]:
        """The damaged records."""
        return tuple(path for path, read in self._read.items() if read.is_damaged)

    def entries(self) -> dict[str, Entry]:
        """The latest entry of each of the grid's steps by key, oldest first, then the models'; a damaged record is skipped with a
        warning. Where no record has changed it is the same object as the last time.
        """
        before = self._read
        self._read = {path: self._look(path) for folder in self._folders for path in _records_below(folder)}
        if before.keys() != self._read.keys() or any(before[p] is not r for p, r in self._read.items()):
            entries = sorted((read.entry for read in self._read.values() if read.entry), key=_order)
            latest = {e.key: e for e in entries if e.tags.get("grid", self.grid) == self.grid}
            finished = {entry.digest: entry for entry in entries if entry.status == "FINISHED"}
            steps = [
                replace(entry, datasets=collections_behind(entry, finished))
                for entry in sorted(latest.values(), key=_order)
            ]
            self._entries = {entry.key: entry for entry in [*steps, *models_of(steps)]}
        return self._entries

    def _look(self, path: Path) -> _Read:
        """A record as it was read before, or is now if its step is at work or the file has changed."""
        before, stamp = self._read.get(path), _stamp(path)
        if before and before.stamp == stamp and not (before.entry and before.entry.status == "RUNNING"):
            return before
        try:
            read = _Read(stamp, _entry(path))
        except (OSError, KeyError, TypeError, ValueError) as error:
            # The file may have vanished between listing and reading, as running records do.
            if stamp is not None:
                log.warning("not a whole record, so not shown in MLflow: %s (%r)", path, error)
            read = _Read(stamp, None, is_damaged=stamp is not None)
        return before if before == read else read


def _entry(path: Path) -> Entry | None:
    """The entry of a record; None if the file is no record."""
    record = sealed.read(path)
    if not isinstance(record, dict) or not {"node", "status"} <= record.keys():
        return None
    entry = entry_of(record)
    is_here = entry.status == "RUNNING" and record.get("host") == platform.node()
    if is_here and not psutil.pid_exists(record["pid"]):
        # It died without a word (killed, power lost); its last epoch is its last sign of life.
        modified, _ = _stamp(Path(record.get("history") or path)) or _stamp(path) or (0, 0)
        entry = replace(entry, status="KILLED", finished=modified // 1_000_000)
    return entry


def _stamp(path: Path) -> Stamp:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def _records_below(folder: Path) -> Iterator[Path]:
    """Every record below a folder, by name; what is hidden is unfinished."""
    for place, below, files in os.walk(folder):
        below[:] = sorted(name for name in below if not name.startswith("."))
        yield from (Path(place, name) for name in sorted(files) if RECORD.fullmatch(name))


def _order(entry: Entry) -> tuple[int, str, bool]:
    # A step's running record and its final one bear the same start: the final one says more.
    return entry.started, entry.key, entry.status != "RUNNING"


def collections_behind(entry: Entry, finished: Mapping[str, Entry]) -> tuple[Collection, ...]:
    """The photos, masks and backgrounds of a model's step, by the records of ``finished`` steps."""
    collections: dict[str, Collection] = {}
    waiting = [*entry.upstream.values()] if entry.is_of_model else []
    while waiting:
        digest = waiting.pop()
        maker = finished.get(digest)
        if maker and maker.collection:
            collections[digest] = maker.collection
        elif maker:
            waiting += maker.upstream.values()
    return tuple(sorted(collections.values(), key=lambda made: (made.role != "photos", made.name)))


def models_of(steps: Iterable[Entry]) -> Iterator[Entry]:
    """The entries of the models that the steps work on: each joins the steps that build on one another."""
    by_model: dict[str, list[Entry]] = {}
    for entry in steps:
        if entry.is_of_model:
            by_model.setdefault(entry.tags["subject"], []).append(entry)
    for entries in by_model.values():
        chain: list[Entry] = []
        for entry in sorted(entries, key=lambda e: (*BEGINNINGS, e.node).index(e.node)):
            if _belongs(entry, chain):
                chain.append(entry)
        if chain:
            yield _joined(chain)


def _belongs(entry: Entry, chain: list[Entry]) -> bool:
    """Whether a step is of the same model as those of the chain, which it may begin."""
    if not chain:
        return entry.node in BEGINNINGS
    digests = {entry.upstream[name] for name in BEGINNINGS if name in entry.upstream}
    if digests:
        return any(step.digest in digests for step in chain)
    # A backbone as it comes has no training to be known by.
    return chain[0].node == "embed" and _untrained(entry) == _untrained(chain[0])


def _untrained(entry: Entry) -> dict[str, str]:
    """What a step's record says of the backbone and the photos that it was made of."""
    settings = entry.upstream | entry.params
    return {k: v for k, v in settings.items() if k.partition(".")[0] in UNTRAINED}


def _joined(chain: list[Entry]) -> Entry:
    first = chain[0]
    params = {k: v for step in reversed(chain) for k, v in step.params.items() if k != "metrics"}
    results = {k: v for step in chain for k, v in step.metrics.items() if k not in OF_STEPS}
    metrics = views.named(results)
    measured = [step.metrics for step in chain if "seconds" in step.metrics]
    if measured:
        metrics["seconds"] = sum(step["seconds"] for step in measured)
        metrics["peak_memory_mb"] = max(step["peak_memory_mb"] for step in measured)
    states = {step.status for step in chain}
    status = next((s for s in ("RUNNING", "FAILED", "KILLED") if s in states), "FINISHED")
    ends = [step.finished for step in chain if step.finished]
    title = first.name.removeprefix(f"{first.node} ")
    digests = {step.node: step.digest for step in chain}
    return replace(
        first,
        key=first.key.replace(f"/{first.node}/", f"/{MODEL_RUN}/", 1),
        node=MODEL_RUN,
        name=title,
        # Of what it was made of first: what is measured of the same model later is added to its run.
        digest=hashed(f"{MODEL_RUN} {first.digest}"),
        status=status,
        finished=max(ends) if ends and status != "RUNNING" else None,
        params=params | {"node": MODEL_RUN},
        tags={k: first.tags[k] for k in TAGS if k in first.tags}
        | {"node": MODEL_RUN, "mlflow.source.name": "bgbias"}
        | {"upstream": json.dumps(digests, sort_keys=True)}
        | views.described(title, metrics, first.tags.get("grid", "")),
        metrics=metrics,
        files=tuple(path for step in chain for path in step.tables),
        tables=(),
        model=None,
        vitals="",
    )
