"""The next batch is made while the last one is used, in order and with the same numbers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import torch
from project import PATIENCE
from torch import Tensor

from bgbias.compute.transfer import prefetch, to_host


@dataclass(frozen=True)
class Pair:
    """Something that holds tensors, one of them absent."""

    left: Tensor
    right: Tensor | None = None


def test_things_come_in_order_and_an_error_of_the_source_in_its_turn() -> None:
    assert [int(p.left) for p in prefetch([Pair(torch.tensor(7))], "cpu")] == [7]
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
    found = to_host(x * 2 for x in prefetch(things, "cuda"))
    assert all(torch.equal(a, 2 * b) for a, b in zip(found, things, strict=True))
    list(prefetch(things, "cuda"))  # reserves what the others use
    reserved = torch.cuda.memory_reserved()
    assert [len(list(prefetch(things, "cuda"))) for _ in range(4)] == [20] * 4
    # Not once more for every time.
    assert torch.cuda.memory_reserved() == reserved
