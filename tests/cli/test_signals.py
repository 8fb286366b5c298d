"""A signal ends a command, also where it leaves a lock taken for which the command's own end waits."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest
from project import PATIENCE, hear_interrupts

# What the command line does around a command. The signal comes as a lock was just taken: when ``Condition.__enter__`` returns,
# before the block that would give it back has begun. The thread, and with it the interpreter's end, waits for that lock for ever.
LOCKED = """
import signal, sys, threading, time
from bgbias import cli

number, condition = int(sys.argv[1]), threading.Condition()

def returned(frame, event, _):
    if event == "return" and frame.f_code is threading.Condition.__enter__.__code__:
        sys.setprofile(None)
        signal.raise_signal(number)

def wants_it_too():
    while True:
        with condition:
            time.sleep(0.001)

def command(_):
    threading.Thread(target=wants_it_too).start()
    sys.setprofile(returned)
    while True:
        with condition:
            pass

cli.GRACE_SECONDS = 1
cli.run_reporting_errors = command
cli.main()
"""
WAITS = """
import threading
from bgbias import cli

def command(_):
    print("waits", flush=True)
    threading.Event().wait()

cli.run_reporting_errors = command
cli.main()
"""
ENDS = {signal.SIGTERM: {128 + signal.SIGTERM}, signal.SIGINT: {-signal.SIGINT, 128 + signal.SIGINT}}


@pytest.mark.parametrize("number", ENDS)
def test_one_that_comes_as_a_lock_is_taken_leaves_nobody_waiting_for_it(number: signal.Signals) -> None:
    words = [sys.executable, "-c", LOCKED, str(int(number))]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, preexec_fn=hear_interrupts)
    assert done.returncode in ENDS[number], done.stderr


@pytest.mark.parametrize("number", ENDS)
def test_a_command_that_waits_for_another_thread_ends(number: signal.Signals) -> None:
    words = [sys.executable, "-c", WAITS]
    command = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, preexec_fn=hear_interrupts)
    assert command.stdout is not None
    assert command.stdout.readline() == "waits\n"
    command.send_signal(number)
    command.communicate(timeout=PATIENCE)
    assert command.returncode in ENDS[number]
