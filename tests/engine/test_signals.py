"""A signal ends a command, wherever in the taking of locks it comes."""

from __future__ import annotations

import concurrent.futures
import logging
import multiprocessing
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from project import PATIENCE, hear_interrupts

from bgbias.engine import signals
from bgbias.engine.signals import Deferred

# What the command line does around a command, and a command that makes batches ahead. Its signal comes as a lock was just taken:
# when ``Condition.__enter__`` returns, before the block that would give it back has begun.
COMMAND = """
import signal, sys, threading
import torch
from bgbias import cli
from bgbias.compute.overlap import ahead

number = int(sys.argv[1])

def returned(frame, event, _):
    if event == "return" and frame.f_code is threading.Condition.__enter__.__code__:
        sys.setprofile(None)
        signal.raise_signal(number)

def batches():
    while True:
        yield torch.zeros(1)

def command(_):
    for count, _ in enumerate(ahead(batches(), "cpu", lambda batch, device: batch)):
        if count == 3:
            sys.setprofile(returned)
        assert count < 1000000

cli.told = command
cli.main()
"""
WAITS = """
import threading
from bgbias import cli

def command(_):
    print("waits", flush=True)
    threading.Event().wait()

cli.told = command
cli.main()
"""
ENDS = {signal.SIGTERM: 128 + signal.SIGTERM, signal.SIGINT: -signal.SIGINT}


@pytest.mark.parametrize("number", ENDS)
def test_one_that_comes_as_a_lock_is_taken_leaves_nobody_waiting_for_it(number: signal.Signals) -> None:
    words = [sys.executable, "-c", COMMAND, str(int(number))]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, preexec_fn=hear_interrupts)
    assert done.returncode == ENDS[number], done.stderr
    assert "AssertionError" not in done.stderr


@pytest.mark.parametrize("number", ENDS)
def test_a_command_that_waits_for_another_thread_ends(number: signal.Signals) -> None:
    words = [sys.executable, "-c", WAITS]
    command = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, preexec_fn=hear_interrupts)
    assert command.stdout is not None
    assert command.stdout.readline() == "waits\n"
    command.send_signal(number)
    command.communicate(timeout=PATIENCE)
    assert command.returncode == ENDS[number]


def from_threading(call: Callable[[], None]) -> None:
    threading.Thread(target=call).run()


def from_queue(call: Callable[[], None]) -> None:
    class Calls(queue.Queue[None]):
        def _init(self, maxsize: int) -> None:
            call()

    Calls()


def from_futures(call: Callable[[], None]) -> None:
    future = concurrent.futures.Future[None]()
    future.add_done_callback(lambda _: call())
    future.set_result(None)


def from_logging(call: Callable[[], None]) -> None:
    class Calls(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            call()

    Calls().handle(logging.makeLogRecord({}))


def from_synchronize(call: Callable[[], None]) -> None:
    def true() -> bool:
        call()
        return True

    condition = multiprocessing.get_context("spawn").Condition()
    with condition:
        condition.wait_for(true)


@pytest.fixture
def seen() -> Iterator[list[int]]:
    """What a deferred handler of SIGUSR1 was called with."""
    called: list[int] = []
    before = signal.signal(signal.SIGUSR1, Deferred(lambda number, _: called.append(number)))
    yield called
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize(
    "through", [from_threading, from_queue, from_futures, from_logging, from_synchronize]
)
def test_one_that_comes_within_is_taken_once_and_afterwards(
    through: Callable[[Callable[[], None]], None], seen: list[int]
) -> None:
    within = []

    def twice() -> None:
        for _ in range(2):
            signal.raise_signal(signal.SIGUSR1)
            within.append(len(seen))

    through(twice)
    assert within == [0, 0]
    while not seen:
        time.sleep(signals.INTERVAL)
    time.sleep(10 * signals.INTERVAL)
    assert seen == [signal.SIGUSR1]


def test_one_that_comes_elsewhere_is_taken_at_once_and_for_those_that_wait(
    seen: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    moment_is_over, sent = threading.Event(), threading.Event()

    class Clock:
        @staticmethod
        def sleep(_: float) -> None:
            moment_is_over.wait()
            sent.set()

    monkeypatch.setattr(signals, "time", Clock)
    from_threading(lambda: signal.raise_signal(signal.SIGUSR1))
    assert not seen
    signal.raise_signal(signal.SIGUSR1)
    assert seen == [signal.SIGUSR1]
    moment_is_over.set()
    sent.wait()
    time.sleep(10 * signals.INTERVAL)
    assert seen == [signal.SIGUSR1]


def test_what_is_deferred_twice_is_deferred_once() -> None:
    called: list[int] = []
    Deferred(Deferred(lambda number, _: called.append(number)))(signal.SIGUSR1, None)
    assert called == [signal.SIGUSR1]
