"""MLflow shows what the records say, one run a step; the records are the truth, and any store can be rebuilt.

Steps know nothing of MLflow: they write records and histories, and one process mirrors them (``follow`` while
the workflow runs, ``sync`` at any time). A store that is slow, locked or down delays the show, never a step.
"""

import json
import logging
import os
import platform
import random
import re
import signal
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from bgbias.files import json_checksum
from bgbias.files.code import hash_text
from bgbias.tracking import store
from bgbias.tracking.entries import (
    CELL_PARAMS,
    COLOUR,
    MODEL_RUN,
    Collection,
    Entry,
    description_tags,
    entry_of,
    named_metrics,
)

# After a look it rests, so many times as long as the look took: very many records, or a slow store, take little of a core.
REST, LONGEST_PAUSE = 20, 10.0
# Where other machines write to the same store: it is tried again, at random moments.
TRIES, LONGEST_WAIT = 10, 3.0
RECORD = re.compile(r"[^.].*\.json")
# What the other steps of a model are made of.
BEGINNINGS = ("train", "embed")
# What stands there instead of a model for a backbone's own features, which nothing was trained for.
UNTRAINED = frozenset({"backbone", "index", "pretrain", "weights"})
# Metrics of each step; a model's run has the sum of the seconds and the most of the memory.
OF_STEPS = frozenset({"seconds", "peak_memory_mb", "photos", "photos_without_trusted_mask"})
TAGS = (
    *("grid", "subject", "git_commit", "mlflow.source.git.commit", "mlflow.source.type"),
    *(COLOUR, "model", *CELL_PARAMS),
)

# Modification time (ns) and size of a file, which change as it is written; None if it is absent.
Stamp = tuple[int, int] | None

log = logging.getLogger("bgbias.tracking")


@dataclass(frozen=True)
class Summary:
    """How many runs were created, updated and left as they were, and how many records cannot be read."""

    created: int
    updated: int
    unchanged: int
    unreadable: int

    def __str__(self) -> str:
        text = f"{self.created} runs created, {self.updated} updated, {self.unchanged} unchanged"
        return text + (f", {self.unreadable} damaged records skipped" if self.unreadable else "")


def default_uri(root: Path) -> str:
    """The store to write to: ``$MLFLOW_TRACKING_URI``, or else ``mlflow.db`` in the project's folder."""
    return os.environ.get("MLFLOW_TRACKING_URI") or f"{store.SQLITE}{root.resolve() / 'mlflow.db'}"


def sync(folders: Iterable[Path], uri: str, grid: str) -> Summary:
    """Make the experiment ``bgbias-<grid>`` agree with the grid's records below ``folders``.

    Doing it twice changes nothing. A store that cannot be reached or written is a ``UserError``.
    """
    records = Records(folders, grid)
    outcomes = _write([*records.entries().values()], uri, grid)
    created, updated, unchanged = map(outcomes.count, ("created", "updated", "unchanged"))
    return Summary(created, updated, unchanged, len(records.unreadable))


def follow(
    folders: Iterable[Path],
    uri: str,
    grid: str,
    parent: int,
    stop: threading.Event,
    interval: float = 2.0,
) -> None:
    """Mirror records as they appear and histories as they grow, until the process ``parent`` is gone, or until ``stop``.

    Each time a last look is taken. Nothing that the store does is an error here: what it does not take is reported
    once, tried again with each look, and at last left to ``bgbias track``.
    """
    records = Records(folders, grid)
    workflow = psutil.Process(parent) if psutil.pid_exists(parent) else None
    entries_shown: dict[str, Entry] = {}
    due, has_warned, is_last = 0.0, False, False
    while not is_last:
        stop.wait(interval)
        is_last = stop.is_set() or not _is_alive(workflow)
        if time.monotonic() < due and not is_last:
            continue
        begun = time.monotonic()
        try:
            fresh = {key: e for key, e in records.entries().items() if entries_shown.get(key) != e}
            _write([*fresh.values()], uri, grid)
            entries_shown |= fresh
        except Exception as error:
            # Whatever it is: the results are worth more than their display.
            if not has_warned:
                log.warning("%s", error)
            has_warned = True
            if is_last:
                log.warning(
                    "MLflow does not show all of this run; catch up with: python -m bgbias track --grid %s",
                    grid,
                )
        ended = time.monotonic()
        due = ended + min(REST * (ended - begun), LONGEST_PAUSE)


def _write(entries: Sequence[Entry], uri: str, grid: str, tries: int = TRIES) -> list[str]:
    if not entries:
        return []
    try:
        with store.experiment(uri, grid) as experiment:
            return experiment.write(entries)
    except store.Conflict:
        if tries == 1:
            raise
    time.sleep(random.uniform(0, LONGEST_WAIT))  # so that the two do not meet again
    return _write(entries, uri, grid, tries - 1)


def stop_by_signal() -> threading.Event:
    """An event that SIGTERM sets from now on. Ctrl-C ends the workflow, and the end of that is still to be shown."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    return stop


def _is_alive(process: psutil.Process | None) -> bool:
    """Whether a process still lives; a later one with its number, or a zombie, does not count."""
    with suppress(psutil.NoSuchProcess):
        return process is not None and process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


class Records:
    """The entries below some folders; the record of a finished step is read again only when it has changed."""

    def __init__(self, folders: Iterable[Path], grid: str) -> None:
        self.grid = grid
        self._folders = tuple(folders)
        self._read: dict[Path, tuple[Stamp, Entry | None]] = {}
        self.unreadable: set[Path] = set()

    def entries(self) -> dict[str, Entry]:
        """The latest entry of each of the grid's steps by key, oldest first, then the models'; a damaged record is skipped with a
        warning.
        """
        self._read = {path: self._look(path) for folder in self._folders for path in _records_below(folder)}
        entries = sorted((entry for _, entry in self._read.values() if entry), key=_order)
        latest = {e.key: e for e in entries if e.tags.get("grid", self.grid) == self.grid}
        finished = {entry.digest: entry for entry in entries if entry.status == "FINISHED"}
        steps = [
            replace(entry, datasets=collections_behind(entry, finished))
            for entry in sorted(latest.values(), key=_order)
        ]
        return {entry.key: entry for entry in [*steps, *models_of(steps)]}

    def _look(self, path: Path) -> tuple[Stamp, Entry | None]:
        """A record as it was read before, or is now if its step is at work or the file has changed."""
        stamp, (before, entry) = _stamp(path), self._read.get(path, (None, None))
        if stamp == before and not (entry and entry.status == "RUNNING"):
            return before, entry
        self.unreadable.discard(path)
        try:
            return stamp, _entry(path)
        except (OSError, KeyError, TypeError, ValueError) as error:
            # The file may have vanished between listing and reading, as running records do.
            if stamp is not None:
                log.warning("not a whole record, so not shown in MLflow: %s (%r)", path, error)
                self.unreadable.add(path)
            return stamp, None


def _entry(path: Path) -> Entry | None:
    record = json_checksum.read(path)
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
    waiting = [*entry.upstream.values()] if "method" in entry.tags else []
    while waiting:
        digest = waiting.pop()
        maker = finished.get(digest)
        if maker and maker.collection:
            collections[digest] = maker.collection
        elif maker:
            waiting += maker.upstream.values()
    return tuple(sorted(collections.values(), key=lambda one: (one.role != "photos", one.name)))


def models_of(steps: Iterable[Entry]) -> Iterator[Entry]:
    """The entries of the models that the steps work on: each joins the steps that build on the one that it begins with."""
    by_model: dict[str, list[Entry]] = {}
    for entry in steps:
        if "method" in entry.tags:
            by_model.setdefault(entry.tags["subject"], []).append(entry)
    for entries in by_model.values():
        first = next((entry for node in BEGINNINGS for entry in entries if entry.node == node), None)
        if first:
            others = [e for e in entries if e is not first and _builds_on(e, first, entries)]
            yield _join([first, *others])


def _builds_on(entry: Entry, first: Entry, entries: Sequence[Entry]) -> bool:
    """Whether a step works on what ``first`` made, perhaps by way of others of the same model."""
    read = [e for e in entries if e.digest in entry.upstream.values()]
    if read:
        return any(e is first or _builds_on(e, first, entries) for e in read)
    # A backbone as it comes has no training to be known by.
    return first.node == "embed" and _read_untrained(entry) == _read_untrained(first)


def _read_untrained(entry: Entry) -> dict[str, str]:
    settings = entry.upstream | entry.params
    return {k: v for k, v in settings.items() if k.partition(".")[0] in UNTRAINED}


def _join(chain: list[Entry]) -> Entry:
    first = chain[0]
    params = {k: v for step in reversed(chain) for k, v in step.params.items() if k != "metrics"}
    results = {k: v for step in chain for k, v in step.metrics.items() if k not in OF_STEPS}
    metrics = named_metrics(results)
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
        digest=hash_text(f"{MODEL_RUN} {first.digest}"),
        status=status,
        finished=max(ends) if ends and status != "RUNNING" else None,
        params=params | {"node": MODEL_RUN},
        tags={k: first.tags[k] for k in TAGS if k in first.tags}
        | {"node": MODEL_RUN, "mlflow.source.name": "bgbias"}
        | {"upstream": json.dumps(digests, sort_keys=True)}
        | description_tags(title, metrics, first.tags.get("grid", "")),
        metrics=metrics,
        files=tuple(path for step in chain for path in step.tables),
        tables=(),
        model=None,
        vitals="",
    )
