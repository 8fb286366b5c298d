"""Pictures by several processes: in order, as one process makes them, with its errors, and with nobody left behind."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from bgbias.compute import forked as module
from bgbias.compute.forked import forked
from bgbias.errors import UserError

SHAPE = (2, 3, 3, 3)


def pictures(number: int) -> Iterator[np.ndarray]:
    """Two of each number, by a process that may be the slowest of all."""
    time.sleep(0.01 * (number % 3 == 0))
    for part in range(2):
        yield np.full(SHAPE[1:], 10 * number + part, np.uint8)


@pytest.mark.parametrize("processes", [1, 2, 3, 30])
@pytest.mark.parametrize("ahead", [1, 2**23])
def test_they_come_in_order_and_stay_as_they_were(
    processes: int, ahead: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        module, "AHEAD", ahead
    )  # two places for each process, so that each is filled many times
    made = list(forked(pictures, 23, SHAPE, processes))
    assert [one[:, 0, 0, 0].tolist() for one in made] == [[10 * n, 10 * n + 1] for n in range(23)]


def test_what_is_raised_there_is_raised_here_when_its_turn_comes() -> None:
    def broken(number: int) -> Iterator[np.ndarray]:
        if number == 5:
            raise UserError("'bird_5' is damaged; fetch it again.")
        return pictures(number)

    coming = forked(broken, 23, SHAPE, 3)
    assert [next(coming)[0, 0, 0, 0] for _ in range(5)] == [0, 10, 20, 30, 40]
    with pytest.raises(UserError) as raised:
        next(coming)
    assert str(raised.value) == "'bird_5' is damaged; fetch it again."
    assert "in broken" in raised.value.__notes__[0]
    assert not multiprocessing.active_children()


def test_a_killed_process_is_told_of() -> None:
    def killed(number: int) -> Iterator[np.ndarray]:
        if number == 4:
            os.kill(os.getpid(), signal.SIGKILL)
        return pictures(number)

    with pytest.raises(RuntimeError, match="was killed"):
        list(forked(killed, 23, SHAPE, 3))
    assert not multiprocessing.active_children()


def test_who_stops_early_leaves_no_process_behind() -> None:
    coming = forked(lambda number: pictures(number % 20), 10**9, SHAPE, 3)
    next(coming)
    assert len(multiprocessing.active_children()) == 3
    coming.close()  # type: ignore[attr-defined]  # a generator
    assert not multiprocessing.active_children()


def test_they_end_with_the_one_that_wanted_them() -> None:
    wants = """
        import multiprocessing, time
        import numpy as np
        from bgbias.compute.forked import forked
        coming = forked(lambda number: [np.zeros((3, 3), np.uint8)], 10**9, (1, 3, 3), 3)
        next(coming)
        print(*(process.pid for process in multiprocessing.active_children()), flush=True)
        time.sleep(600)
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(wants)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        made = [int(number) for number in process.stdout.readline().split()]
        process.kill()
    assert len(made) == 3
    waited = 0
    while any(alive(number) for number in made):
        time.sleep(0.1)
        waited += 1
        assert waited < 3000, "they are still there"


def alive(number: int) -> bool:
    try:
        state = Path(f"/proc/{number}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"
