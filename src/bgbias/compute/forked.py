"""Pictures made by several processes at once, in their order.

Threads of one process run Python one at a time, and sixteen of them made hardly more views than one. Forked processes see all
that this one has opened, and leave what they make in memory that it shares with them. (torch's ``DataLoader`` sends it through
pipes, or allocates shared memory for each batch: it hands over about a tenth as many views a second, fewer than a GPU embeds.)
"""

import gc
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

AHEAD = 2**23  # bytes that each process makes before they are asked for, or two numbers' if these are more
MOST = 16  # numbers that it makes ahead: messages that nobody has read yet have to fit into the pipe


def forked(
    make: Callable[[int], Iterable[np.ndarray]], count: int, shape: tuple[int, ...], processes: int
) -> Iterator[np.ndarray]:
    """The pictures of ``make(0)`` to ``make(count - 1)``, uint8 of this shape for each number, by so many processes.

    Process k of P makes those of k, k + P, k + 2 P ... What ``make`` raises is raised here when its turn comes; pictures of
    another shape or kind are a ValueError, and a process that was killed is a RuntimeError. ``make`` must not touch a GPU, which
    a forked process cannot use, and no other thread may make pictures while this begins: a lock that it holds in that moment
    stays locked in the new process.
    """
    size = math.prod(shape)
    if not (count and size):
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
            arguments = (make, numbers, places[number], theirs, open_here)
            worker = fork.Process(target=_work, args=arguments, daemon=True)
            gc.freeze()  # garbage stays where it is: to collect what belongs to a GPU would end a forked process
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # of the locks of other threads
                worker.start()
            gc.unfreeze()
            theirs.close()
            workers.append((worker, ours))
        for number in range(count):
            turn, which = divmod(number, processes)
            worker, pipe = workers[which]
            _wait_for_pictures(worker, pipe)
            picture = places[which, turn % slots].copy()
            if number + slots * processes < count:
                with suppress(OSError):  # of one that has ended, whose last words are still to be read
                    pipe.send_bytes(b"")
            yield picture
    finally:
        for worker, pipe in workers:
            worker.kill()
            pipe.close()
        for worker, _ in workers:
            worker.join()


def _wait_for_pictures(worker: ForkProcess, pipe: Connection) -> None:
    try:
        message = pipe.recv()
    except (EOFError, OSError):
        worker.join()
        raise RuntimeError(
            f"A process that made pictures was killed or broke (exit code {worker.exitcode}). If memory was short, give fewer"
            " threads (OMP_NUM_THREADS): there are two processes fewer than threads."
        ) from None
    if message is not None:
        error, where = message
        error.add_note(where)
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
    # The process that forked this one ends it, and may handle signals in its own way.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with suppress(EOFError, ConnectionError):  # nobody waits any more
        for turn, number in enumerate(numbers):
            if turn >= len(slots):
                pipe.recv_bytes()
            try:
                for slot, picture in zip(slots[turn % len(slots)], make(number), strict=True):
                    if picture.shape != slot.shape or picture.dtype != slot.dtype:
                        text = f"{picture.dtype} {list(picture.shape)}"
                        raise ValueError(f"a picture is {text}, not {slot.dtype} {list(slot.shape)}")
                    slot[...] = picture
            except BaseException as error:
                pipe.send(_make_sendable(error))
                return
            pipe.send(None)


def _make_sendable(error: BaseException) -> tuple[BaseException, str]:
    """The error and where it came from; one that cannot be sent becomes its words."""
    where = f"In a process of its own:\n{traceback.format_exc()}"
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError("".join(traceback.format_exception_only(error)).strip()), where
    return error, where
