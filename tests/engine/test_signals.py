"""A signal ends a command, wherever in the taking of locks it comes."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

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
    done = subprocess.run([sys.executable, "-c", COMMAND, str(int(number))], capture_output=True, text=True)
    assert done.returncode == ENDS[number], done.stderr
    assert "AssertionError" not in done.stderr


@pytest.mark.parametrize("number", ENDS)
def test_a_command_that_waits_for_another_thread_ends(number: signal.Signals) -> None:
    command = subprocess.Popen([sys.executable, "-c", WAITS], stdout=subprocess.PIPE, text=True)
    assert command.stdout is not None
    assert command.stdout.readline() == "waits\n"
    for _ in range(2):  # through its group, and from whoever passes it on
        command.send_signal(number)
        time.sleep(0.05)
    command.communicate()
    assert command.returncode == ENDS[number]


def test_one_that_comes_elsewhere_is_not_put_off() -> None:
    from bgbias.engine.signals import put_off

    seen: list[int] = []
    before = signal.signal(signal.SIGUSR1, put_off(lambda number, _: seen.append(number)))
    try:
        signal.raise_signal(signal.SIGUSR1)
        assert seen == [signal.SIGUSR1]
    finally:
        signal.signal(signal.SIGUSR1, before)
