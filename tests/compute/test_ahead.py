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
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import psutil
import pytest
import torch
from project import PATIENCE, wait_for
from torch import Tensor

from bgbias.compute.transfer import prefetch, to_host
from bgbias.compute.workers import make_in_workers
from bgbias.errors import UserError
from bgbias.models import inference
from bgbias.models.settings import How
from bgbias.training.methods import Batch


@pytest.fixture(autouse=True)
def _nobody_is_left_behind() -> Iterator[None]:
    before = multiprocessing.active_children()
    yield
    assert not {*multiprocessing.active_children()} - {*before}


def picture(number: int) -> np.ndarray:
    """One of each number, by a process that may be the slowest of all."""
    time.sleep(0.01 * (number % 3 == 0))
    return np.full((3, 3), number, np.uint8)


@pytest.mark.parametrize(("processes", "count"), [(2, 23), (6, 4), (3, 0)])
def test_they_come_in_order_and_draw_nothing(processes: int, count: int) -> None:
    before = torch.get_rng_state()
    made = list(make_in_workers(picture, count, processes))
    assert [int(one[0, 0]) for one in made] == list(range(count))
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("error", [UserError("'bird_5' is damaged."), ValueError("no", lambda: None)])
def test_errors_come_in_their_turn_even_what_cannot_be_sent(error: Exception) -> None:
    def broken(number: int) -> np.ndarray:
        if number == 5:
            raise error
        return picture(number)

    coming = make_in_workers(broken, 23, 3)
    assert [int(next(coming)[0, 0]) for _ in range(5)] == [0, 1, 2, 3, 4]
    kind = UserError if isinstance(error, UserError) else RuntimeError
    with pytest.raises(kind, match=r"'bird_5' is damaged|ValueError\('no', <function") as raised:
        next(coming)
    assert "in broken" in raised.value.__notes__[0]


def test_a_killed_process_is_told_of_in_a_thread_too() -> None:
    def killed(number: int) -> np.ndarray:
        if number == 30:
            os.kill(os.getpid(), signal.SIGKILL)
        return np.full((300, 300, 3), number % 20, np.uint8)

    with pytest.raises(RuntimeError, match=r"was killed or broke.* give fewer --workers"):
        list(prefetch(map(torch.from_numpy, make_in_workers(killed, 1000, 4)), "cpu"))


HOLDER = """
import multiprocessing, signal, time
import numpy as np
from bgbias.compute.workers import make_in_workers
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's background jobs ignore
for _ in make_in_workers(lambda number: np.zeros((300, 300, 3), np.uint8), 10**9, 3):
    print(*(process.pid for process in multiprocessing.active_children()), flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_they_end_with_the_one_that_wanted_them(how: int) -> None:
    command, quiet = [sys.executable, "-c", HOLDER], subprocess.DEVNULL
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=quiet, text=True) as process:
        assert process.stdout
        started = [int(number) for number in process.stdout.readline().split()]
        process.send_signal(how)
    assert len(started) == 3
    wait_for(lambda: not any(map(psutil.pid_exists, started)), "their end")


def test_garbage_of_before_is_collected_where_it_was_made(tmp_path: Path) -> None:
    """A GPU's would end the new process."""
    said = tmp_path / "said"

    class Recorded:
        def __init__(self) -> None:
            self.itself = self

        def __del__(self) -> None:
            said.write_text(str(os.getpid()))

    def collecting(number: int) -> np.ndarray:
        gc.collect()
        return picture(number)

    gc.disable()
    try:
        Recorded()
        assert len(list(make_in_workers(collecting, 6, 2))) == 6
        assert not said.exists()
        assert not gc.isenabled()
    finally:
        gc.enable()
    gc.collect()
    assert said.read_text() == str(os.getpid())


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


def test_who_interrupts_a_network_finds_its_batches_at_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    def make_slowly() -> Iterator[Tensor]:
        while True:
            yield torch.zeros(1, 8, 8, 3, dtype=torch.uint8)
            time.sleep(0.1)

    def interrupt(vectors: Iterator[Tensor]) -> None:
        next(vectors)
        raise KeyboardInterrupt

    monkeypatch.setattr(inference, "to_host", interrupt)
    network: Any = SimpleNamespace(pooled=lambda x: x, preprocess=Tensor.float)
    with pytest.raises(KeyboardInterrupt), closing(make_slowly()) as batches:  # type: ignore[type-var]
        inference.embed_batches(network, batches, How(pooled=True))


@pytest.mark.gpu
def test_a_gpu_gets_and_gives_the_same_numbers() -> None:
    things = [torch.rand(64, 3, 64, 64, generator=torch.Generator().manual_seed(n)) for n in range(20)]
    found = to_host(x * 2 for x in prefetch(things, "cuda"))
    assert all(torch.equal(a, 2 * b) for a, b in zip(found, things, strict=True))
    list(prefetch(things, "cuda"))  # reserves what the others use
    reserved = torch.cuda.memory_reserved()
    assert [len(list(prefetch(things, "cuda"))) for _ in range(4)] == [20] * 4
    # Not once more for every time.
    assert torch.cuda.memory_reserved() == reserved
