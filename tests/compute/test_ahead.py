"""What is made ahead, by a thread or by processes: in order, with its errors, and with nobody left behind."""

import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch
from project import PATIENCE, wait_for
from torch import Tensor

from bgbias.compute import forked as module
from bgbias.compute.forked import forked
from bgbias.compute.transfer import prefetch, to_host
from bgbias.errors import UserError
from bgbias.training.methods import Batch

SHAPE = (2, 3, 3, 3)


@pytest.fixture(autouse=True)
def _nobody_is_left_behind() -> Iterator[None]:
    before = multiprocessing.active_children()
    yield
    assert not {*multiprocessing.active_children()} - {*before}


def pictures(number: int) -> Iterator[np.ndarray]:
    """Two of each number, by a process that may be the slowest of all."""
    time.sleep(0.01 * (number % 3 == 0))
    for part in range(2):
        yield np.full(SHAPE[1:], 10 * number + part, np.uint8)


# 1: two places for each process, so that each is filled many times.
@pytest.mark.parametrize(("processes", "ahead", "count"), [(2, 1, 23), (3, 2**23, 23), (6, 1, 4)])
def test_they_come_in_order_and_stay_as_they_were(
    processes: int, ahead: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "AHEAD", ahead)
    assert not list(forked(pictures, 0, SHAPE, processes))
    made = list(forked(pictures, count, SHAPE, processes))
    assert [one[:, 0, 0, 0].tolist() for one in made] == [[10 * n, 10 * n + 1] for n in range(count)]


def test_thousands_of_small_ones_come_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the processes tell each other piles up nowhere: with thousands ahead, both ends would wait for ever."""
    monkeypatch.setattr(module, "AHEAD", 8000)
    made = list(forked(lambda number: [np.full((2, 2), number % 256, np.uint8)], 6000, (1, 2, 2), 2))
    assert [int(one[0, 0, 0]) for one in made] == [n % 256 for n in range(6000)]


@pytest.mark.parametrize(
    ("error", "kind", "told"),
    [
        (UserError("'bird_5' is damaged."), UserError, "'bird_5' is damaged."),
        (ValueError("no", lambda: None), RuntimeError, "ValueError: ('no', <function"),  # cannot be sent
        (SystemExit("enough"), SystemExit, "enough"),
    ],
)
def test_errors_come_in_their_turn(error: BaseException, kind: type[BaseException], told: str) -> None:
    def broken(number: int) -> Iterator[np.ndarray]:
        if number == 5:
            raise error
        return pictures(number)

    coming = forked(broken, 23, SHAPE, 3)
    assert [next(coming)[0, 0, 0, 0] for _ in range(5)] == [0, 10, 20, 30, 40]
    with pytest.raises(kind) as raised:
        next(coming)
    assert told in str(raised.value)
    assert "in broken" in raised.value.__notes__[0]
    with pytest.raises(ValueError, match=r"a picture is uint8 \[3, 3, 3\], not uint8 \[1, 3, 3\]"):
        list(forked(pictures, 4, (2, 1, 3, 3), 2))


def test_a_killed_process_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AHEAD", 1)

    def killed(number: int) -> Iterator[np.ndarray]:
        if number == 300:  # with something told that it has not read
            time.sleep(0.05)
            os.kill(os.getpid(), signal.SIGKILL)
        return pictures(number % 20)

    with pytest.raises(RuntimeError, match=r"was killed or broke \(exit code -9\)"):
        list(forked(killed, 1000, SHAPE, 3))


def test_who_stops_early_leaves_no_process_behind() -> None:
    coming = forked(lambda number: pictures(number % 20), 10**9, SHAPE, 3)
    next(coming)
    assert len(multiprocessing.active_children()) >= 3
    coming.close()  # type: ignore[attr-defined]  # a generator


WANTS = """
import multiprocessing, time
import numpy as np
from bgbias.compute.forked import forked
from bgbias.compute.transfer import prefetch, to_host
picture = np.zeros((3, 3), np.uint8)
coming = forked(lambda number: [picture], 10**9, (1, 3, 3), 3)
next(coming)
print(*(process.pid for process in multiprocessing.active_children()), flush=True)
time.sleep(600)
"""


def test_they_end_with_the_one_that_wanted_them_and_say_nothing(tmp_path: Path) -> None:
    said = tmp_path / "said"
    with (
        said.open("w") as errors,
        subprocess.Popen(
            [sys.executable, "-c", WANTS], stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process,
    ):
        assert process.stdout
        made = [int(number) for number in process.stdout.readline().split()]
        process.kill()
    assert len(made) == 3
    wait_for(lambda: not any(map(is_alive, made)), "their end")
    assert not said.read_text()


def test_garbage_of_before_is_collected_where_it_was_made(tmp_path: Path) -> None:
    """A GPU's would end the new process."""
    said = tmp_path / "said"

    class Recorded:
        def __init__(self) -> None:
            self.itself = self

        def __del__(self) -> None:
            said.write_text(str(os.getpid()))

    def collecting(number: int) -> Iterator[np.ndarray]:
        gc.collect()
        return pictures(number)

    gc.disable()
    try:
        Recorded()
        assert len(list(forked(collecting, 6, SHAPE, 2))) == 6
        assert not said.exists()
        assert not gc.isenabled()
    finally:
        gc.enable()
    gc.collect()
    assert said.read_text() == str(os.getpid())


def is_alive(number: int) -> bool:
    return psutil.pid_exists(number) and psutil.Process(number).status() != psutil.STATUS_ZOMBIE


# Batches by a thread.


def test_things_come_in_order_and_an_error_of_the_source_in_its_turn() -> None:
    (one,) = prefetch([Batch(*torch.arange(3))], "cpu")
    assert (int(one.index), one.masks) == (2, None)
    assert list(prefetch([], "cpu")) == []
    assert [int(t) for t in to_host(torch.tensor(n) for n in range(3))] == [0, 1, 2]
    coming = prefetch((torch.tensor([4, 2][n]) for n in range(9)), "cpu")
    assert [int(next(coming)), int(next(coming))] == [4, 2]
    with pytest.raises(IndexError):
        next(coming)


def test_one_thing_is_made_while_another_is_used_and_no_more_and_no_thread_is_left() -> None:
    made = [threading.Event() for _ in range(4)]
    before = set(threading.enumerate())

    def things() -> Iterator[Tensor]:
        for n, event in enumerate(made):
            event.set()
            yield torch.tensor(n)

    coming = prefetch(things(), "cpu")
    next(coming)
    assert made[1].wait(PATIENCE)
    assert not made[2].wait(0.05)
    next(coming)
    assert made[2].wait(PATIENCE)
    assert not made[3].is_set()
    (own,) = set(threading.enumerate()) - before
    coming.close()  # type: ignore[attr-defined]  # a generator
    assert not own.is_alive()


@pytest.mark.gpu
def test_a_gpu_gets_and_gives_the_same_numbers() -> None:
    things = [torch.rand(64, 3, 64, 64, generator=torch.Generator().manual_seed(n)) for n in range(20)]
    found = to_host(Batch(x * 2, x[0], x[1]) for x in prefetch(things, "cuda"))
    for batch, thing in zip(found, things, strict=True):
        assert torch.equal(batch.images, 2 * thing)
        assert torch.equal(batch.index, thing[1])
    list(prefetch(things, "cuda"))  # reserves what the others use
    reserved = torch.cuda.memory_reserved()
    assert [len(list(prefetch(things, "cuda"))) for _ in range(4)] == [20] * 4
    # Not once more for every time.
    assert torch.cuda.memory_reserved() == reserved
