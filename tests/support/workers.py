"""A run of tests in several processes ends, whatever one of them does."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import psutil
import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

# Seconds. A run that does nothing for so long waits for something that does not come; and machines are kept busy by others.
LIMITS = {"stalled": 600, "longest": 3 * 3600}
WORKING = 1 / 120  # of a core's time: processes that together use less do nothing
LOOKS = 20  # in the time after which a run counts as stalled


def add_options(parser: pytest.Parser) -> None:
    """The limits as options of pytest, for the test of them."""
    parser.addini(
        "stalled",
        "seconds without work after which the processes of tests are ended",
        default=str(LIMITS["stalled"]),
    )
    parser.addini(
        "longest", "seconds without the end of any test, however busy", default=str(LIMITS["longest"])
    )


class Ending:
    """Files stay together, and a process that dies fails the test that it was at, and no other; those left of its file are run by
    a new process. When nothing works any more, or no test ends in hours, the processes are ended, each with a traceback.
    """

    def __init__(self, config: pytest.Config) -> None:
        self.stalled, self.longest = (float(config.getini(name)) for name in LIMITS)
        self.reported, self.ended = 0, False

    @pytest.hookimpl
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Producer) -> LoadFileScheduling | None:
        return ByFile(config, log) if config.getvalue("dist") == "loadfile" else None

    @pytest.hookimpl
    def pytest_sessionstart(self) -> None:
        threading.Thread(target=self._watch, args=[psutil.Process()], daemon=True).start()

    @pytest.hookimpl
    def pytest_runtest_logreport(self) -> None:
        self.reported += 1

    @pytest.hookimpl
    def pytest_sessionfinish(self) -> None:
        """The processes are gone; what follows is pytest's own tidying."""
        self.ended = True

    def _watch(self, run: psutil.Process) -> None:
        """Looks are counted, as a clock goes on while the whole run is stopped, and processor time, as a machine that others keep
        busy must turn nothing red.
        """
        pause = self.stalled / LOOKS
        idle = silent = worked = 0.0
        reported = 0
        known: dict[psutil.Process, float] = {}
        while not self.ended:
            time.sleep(pause)
            idle, silent = idle + pause, silent + pause
            now = dict(_processor_times(run))
            worked += sum(max(0.0, used - known.get(process, 0.0)) for process, used in now.items())
            known |= now
            if worked > WORKING * self.stalled:
                idle = worked = 0.0
            if self.reported > reported:
                silent, reported = 0.0, self.reported
            if idle > self.stalled or silent > self.longest:
                idle = silent = 0.0
                _end(run.children(), set(known))


class ByFile(LoadFileScheduling):
    """A dead process's finished tests are not handed out again (the next one would wait for ever for something to do), nor is the
    one that it died of.
    """

    def remove_node(self, node: WorkerController) -> str | None:
        files = self.assigned_work.pop(node)
        if self.collection is None:
            self.registered_collections.pop(node, None)
        running = next(((tests, test) for tests in files.values() for test in tests if not tests[test]), None)
        if running is None:
            return None
        running[0][running[1]] = True
        self.workqueue.update({file: tests for file, tests in files.items() if not all(tests.values())})
        for other in self.assigned_work:
            self._reschedule(other)
        return running[1]

    def _reschedule(self, node: WorkerController) -> None:
        # A process runs a test when it knows the next one, too.
        while node in self.registered_collections and not node.shutting_down:
            super()._reschedule(node)
            if self._pending_of(self.assigned_work[node]) >= 2:
                return


def _processor_times(run: psutil.Process) -> Iterator[tuple[psutil.Process, float]]:
    for process in run.children(recursive=True):
        with suppress(psutil.Error):
            used = process.cpu_times()
            yield process, used.user + used.system + used.children_user + used.children_system


def _end(workers: list[psutil.Process], started: set[psutil.Process]) -> None:
    """End the processes, and all that they started and maybe left behind; without any, whoever waits for them."""
    left = [process for process in started if process.is_running()]
    for process in workers:
        with suppress(psutil.Error):
            # pytest answers with a traceback of all threads, in many small writes: two at once nobody can read.
            process.send_signal(signal.SIGABRT)
            process.wait(timeout=10)
    for process in left:
        with suppress(psutil.Error):
            process.kill()
    if not left:
        # In the background of a shell's script nobody hears of Ctrl-C.
        deaf = signal.getsignal(signal.SIGINT) == signal.SIG_IGN
        os.kill(os.getpid(), signal.SIGTERM if deaf else signal.SIGINT)
