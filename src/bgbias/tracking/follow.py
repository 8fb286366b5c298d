"""MLflow shows what the records say, one run a step; the records are the truth, and any store can be rebuilt.

Steps know nothing of MLflow: they write records and histories, and one process mirrors them (``follow`` while
the workflow runs, ``sync`` at any time). A store that is slow, locked or down delays the show, never a step.
"""

import logging
import os
import random
import signal
import threading
import time
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from bgbias.tracking import store
from bgbias.tracking.entries import Entry
from bgbias.tracking.faults import Conflict
from bgbias.tracking.records import Records

LONGEST_PAUSE = 60.0
# Of a core, for looks at very many records: the next one waits, but not for long.
SHARE, LONGEST_REST = 0.05, 10.0
# Where other machines write to the same store: it is tried again, at random moments.
TRIES, LONGEST_WAIT = 10, 3.0

log = logging.getLogger("bgbias.tracking")


@dataclass(frozen=True)
class Summary:
    """How many runs were created, updated and left as they were; and the records that cannot be read."""

    created: int
    updated: int
    unchanged: int
    unreadable: tuple[Path, ...]

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
    records = Records(folders, grid)
    outcomes = _write(records.entries().values(), uri, grid)
    created, updated, unchanged = map(outcomes.count, ("created", "updated", "unchanged"))
    return Summary(created, updated, unchanged, records.unreadable)


def follow(folders: Iterable[Path], uri: str, grid: str, parent: int, interval: float = 2.0) -> None:
    """Mirror records as they appear and histories as they grow, until the process ``parent`` is gone.

    SIGTERM ends it too, and each time a last look is taken. Nothing that the store does is an error here: what it
    does not take is reported once, tried again after growing pauses, and at last left to ``bgbias track``.
    """
    records = Records(folders, grid)
    stop = _stop_signal()
    workflow = psutil.Process(parent) if psutil.pid_exists(parent) else None
    shown: dict[str, Entry] = {}
    pause, due, has_warned, is_last = 0.0, 0.0, False, False
    while not is_last:
        stop.wait(interval)
        is_last = stop.is_set() or not _is_alive(workflow)
        if time.monotonic() < due and not is_last:
            continue
        try:
            begun = time.process_time()
            fresh = {key: e for key, e in records.entries().items() if shown.get(key) != e}
            _write(fresh.values(), uri, grid)
            # MLflow's imports come once.
            pause = min((time.process_time() - begun) / SHARE, LONGEST_REST) if shown else 0.0
            shown |= fresh
        except Exception as error:
            # Whatever it is: the results are worth more than their display.
            pause = min(2 * max(pause, interval), LONGEST_PAUSE)
            if not has_warned:
                log.warning("%s", error)
            has_warned = True
            if is_last:
                log.warning(
                    "MLflow does not show all of this run; catch up with: python -m bgbias track --grid %s",
                    grid,
                )
        due = time.monotonic() + pause


def _write(entries: Collection[Entry], uri: str, grid: str, tries: int = TRIES) -> list[str]:
    if not entries:
        return []
    try:
        with store.experiment(uri, grid) as experiment:
            return experiment.write(entries)
    except Conflict:
        if tries == 1:
            raise
    time.sleep(random.uniform(0, LONGEST_WAIT))  # so that the two do not meet again
    return _write(entries, uri, grid, tries - 1)


def _stop_signal() -> threading.Event:
    """An event that SIGTERM sets. Ctrl-C ends the workflow, and the end of that is still to be shown."""
    stop = threading.Event()
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, lambda *_: stop.set())
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    return stop


def _is_alive(process: psutil.Process | None) -> bool:
    """Whether a process still lives; a later one with its number, or a zombie, does not count."""
    with suppress(psutil.NoSuchProcess):
        return process is not None and process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False
