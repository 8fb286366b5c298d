"""Pictures made by several processes at once, in their order.

Threads of one process run Python one at a time, and sixteen of them made hardly more views than two. Forked processes see all
that this one has opened, and leave what they make in memory that it shares with them.
"""

from __future__ import annotations

import math
import mmap
import multiprocessing
import pickle
import signal
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.context import ForkProcess

import numpy as np

AHEAD = 2**23  # bytes that each process makes before they are asked for
MOST = 16  # and numbers: what the two ends tell each other has to fit into a pipe that nobody reads from


def forked(
    make: Callable[[int], Iterable[np.ndarray]], count: int, shape: tuple[int, ...], processes: int
) -> Iterator[np.ndarray]:
    """The pictures of ``make(0)`` to ``make(count - 1)``, uint8 of this shape for each number, by so many processes.

    Process k of P makes those of k, k + P, k + 2 P ... What ``make`` raises is raised here when its turn comes; pictures of
    another shape or kind are a ValueError, and a process that was killed is a RuntimeError. ``make`` must not touch a GPU, which
    a forked process cannot use.
    """
    size = math.prod(shape)
    if not count or not size:
        return
    slots = min(max(2, AHEAD // size), MOST, -(-count // processes))
    # Not in /dev/shm, of which containers have little.
    memory = np.frombuffer(mmap.mmap(-1, processes * slots * size), np.uint8)
    places = memory.reshape(processes, slots, *shape)
    fork = multiprocessing.get_context("fork")
    workers: list[tuple[ForkProcess, Connection]] = []
    try:
        for number in range(processes):
            ours, theirs = fork.Pipe()
            numbers, open_here = range(number, count, processes), [ours, *(pipe for _, pipe in workers)]
            given = (make, numbers, places[number], theirs, open_here)
            worker = fork.Process(target=_work, args=given, daemon=True)
            with warnings.catch_warnings():
                # That other threads' locks stay locked in the new process. To make pictures none of them is needed.
                warnings.simplefilter("ignore", DeprecationWarning)
                worker.start()
            theirs.close()
            workers.append((worker, ours))
        for number in range(count):
            turn, which = divmod(number, processes)
            _, pipe = workers[which]
            _wait(pipe)
            made = places[which, turn % slots].copy()
            if number + slots * processes < count:
                with suppress(OSError):  # of one that has ended, whose last words are still to be read
                    pipe.send_bytes(b"")
            yield made
    finally:
        for worker, pipe in workers:
            worker.kill()
            pipe.close()
        for worker, _ in workers:
            worker.join()


def _wait(pipe: Connection) -> None:
    """Until the next pictures are there."""
    try:
        error = pipe.recv()
    except (EOFError, ConnectionError):
        raise RuntimeError(
            "A process that made pictures was killed: by somebody, or for want of memory."
        ) from None
    if error is not None:
        raise error


def _work(
    make: Callable[[int], Iterable[np.ndarray]],
    numbers: range,
    slots: np.ndarray,
    pipe: Connection,
    inherited: list[Connection],
) -> None:
    # Open in a process that waits, these would keep others from noticing that nobody is at the other end.
    for end in inherited:
        end.close()
    # Whoever forked this process ends it, and may have told its own signals to do something else first.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with suppress(EOFError, ConnectionError):  # nobody waits any more
        for turn, number in enumerate(numbers):
            if turn >= len(slots):
                pipe.recv_bytes()
            try:
                for place, picture in zip(slots[turn % len(slots)], make(number), strict=True):
                    if picture.shape != place.shape or picture.dtype != place.dtype:
                        found = f"{picture.dtype} {list(picture.shape)}"
                        raise ValueError(f"a picture is {found}, not {place.dtype} {list(place.shape)}")
                    place[...] = picture
            except BaseException as error:
                pipe.send(_sendable(error))
                return
            pipe.send(None)


def _sendable(error: BaseException) -> BaseException:
    """The error with where it came from; one that cannot go from process to process as words."""
    try:
        pickle.loads(pickle.dumps(error))
        sent = error
    except Exception:
        sent = RuntimeError(f"{type(error).__name__}: {error}")
    sent.add_note(f"In a process of its own:\n{traceback.format_exc()}")
    return sent
