"""MLflow shows what the records say, one run a node; the records are the truth, and any store can be rebuilt.

Nodes know nothing of MLflow: they write records and histories, and one process mirrors them (``follow`` while
the workflow runs, ``sync`` at any time). A store that is slow, locked or down delays the show, never a node.
"""

from __future__ import annotations

import gc
import logging
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

import psutil

from bgbias.tracking import store, views
from bgbias.tracking.entries import Entry
from bgbias.tracking.faults import Conflict
from bgbias.tracking.records import Records

LONGEST_PAUSE = 60.0
# Of a core, for looks at very many records: the next one waits, but not for long.
SHARE, LONGEST_REST = 0.1, 10.0
# Where other machines write to the same store: it is tried again, at random moments.
TRIES, LONGEST_WAIT = 10, 3.0

log = logging.getLogger("bgbias.tracking")


@dataclass(frozen=True)
class Summary:
    """How many runs were made, changed and found as they should be; and the records that cannot be read."""

    created: int = 0
    updated: int = 0
    unchanged: int = 0
    unreadable: tuple[Path, ...] = ()
    page: str = ""
    """Where in an MLflow server the models are compared: to be put behind ``http://host:port/``."""

    def __str__(self) -> str:
        text = f"{self.created} runs created, {self.updated} updated, {self.unchanged} unchanged"
        return text + (f", {len(self.unreadable)} damaged records skipped" if self.unreadable else "")


def default_uri(root: Path) -> str:
    """The store to write to: ``$MLFLOW_TRACKING_URI``, or else ``mlflow.db`` in the project's folder."""
    return os.environ.get("MLFLOW_TRACKING_URI") or f"{store.SQLITE}{root.resolve() / 'mlflow.db'}"


def sync(folders: Iterable[Path], uri: str, grid: str) -> Summary:
    """Make the experiment ``bgbias-<grid>`` agree with the grid's records below ``folders``.

    Doing it twice changes nothing. A store that cannot be reached or written is a ``UserError``.
    """
    found = Records(folders, grid)
    return _write(found.entries().values(), uri, grid, tuple(found.unreadable))


def follow(
    folders: Iterable[Path],
    uri: str,
    grid: str,
    parent: int,
    interval: float = 2.0,
    stop_file: Path | None = None,
) -> None:
    """Mirror records as they appear and histories as they grow, until the process ``parent`` is gone.

    A stop file or SIGTERM ends it too, and each time a last look is taken. Nothing that the store does is an error here: what it
    does not take is said once, tried again after growing pauses, and at last left to ``bgbias track``.
    """
    found = Records(folders, grid)
    stop = _told_to_stop()
    alive = _life(parent)
    shown: dict[str, Entry] = {}
    pause, due, warned, last = interval, 0.0, False, False
    while not last:
        stop.wait(interval)
        last = stop.is_set() or not alive() or (stop_file is not None and stop_file.exists())
        if time.monotonic() < due and not last:
            continue
        try:
            begun = time.process_time()
            now = found.entries()
            changed = {key: entry for key, entry in now.items() if shown.get(key) is not entry}
            fresh = {key: entry for key, entry in changed.items() if shown.get(key) != entry}
            if fresh:
                _write(fresh.values(), uri, grid)
            rest = min((time.process_time() - begun) / SHARE, LONGEST_REST)
            if fresh and not shown:
                gc.freeze()  # what MLflow keeps for good is not looked through again and again
                rest = 0.0  # its imports come once
            shown |= fresh
            pause, due = interval, time.monotonic() + rest
        except Exception as error:
            # Whatever it is: the results are worth more than their display.
            pause = min(2 * pause, LONGEST_PAUSE)
            due = time.monotonic() + pause
            if not warned:
                log.warning("%s", error)
            warned = True
            if last:
                log.warning(
                    "MLflow does not show all of this run; catch up with: python -m bgbias track --grid %s",
                    grid,
                )


def _write(entries: Collection[Entry], uri: str, grid: str, unreadable: tuple[Path, ...] = ()) -> Summary:
    if not entries:
        return Summary(unreadable=unreadable)
    for tries_left in reversed(range(TRIES)):
        try:
            with store.experiment(uri, grid) as experiment:
                outcomes = experiment.write(entries)
                page = views.page(experiment.identity)
            break
        except Conflict:
            if not tries_left:
                raise
            time.sleep(random.uniform(0, LONGEST_WAIT))  # so that the two do not meet again
    created, updated = outcomes.count("created"), outcomes.count("updated")
    return Summary(created, updated, len(outcomes) - created - updated, unreadable, page)


def _told_to_stop() -> threading.Event:
    """An event that SIGTERM sets. Ctrl-C ends the workflow, and the end of that is still to be shown."""
    stop = threading.Event()
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, lambda *_: stop.set())
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    return stop


def _life(process: int) -> Callable[[], bool]:
    """Whether the process still lives; a later one with its number, or a zombie, does not count."""
    try:
        watched = psutil.Process(process)
    except psutil.NoSuchProcess:
        return lambda: False

    def alive() -> bool:
        try:
            return watched.is_running() and watched.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False

    return alive
