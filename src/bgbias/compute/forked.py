"""Pictures made by several processes at once, in their order.

Threads of one process run Python one at a time, and sixteen of them made hardly more views than one. Forked processes see all
that this one has opened, and leave what they make in memory that it shares with them.
"""

import gc
import math
import mmap
import multiprocessing
import os
import signal
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager

import numpy as np

Make = Callable[[int], Iterable[np.ndarray]]
AHEAD = 2**23  # bytes that each process makes before they are asked for, or two numbers' if these are more
MOST = 16  # numbers that it makes ahead, however small they are
_task: tuple[Make, np.ndarray]  # of a process that makes pictures: how, and the places where it leaves them


def forked(make: Make, count: int, shape: tuple[int, ...], processes: int) -> Iterator[np.ndarray]:
    """The pictures of ``make(0)`` to ``make(count - 1)``, uint8 of this shape for each number, by so many processes.

    What ``make`` raises is raised here when its turn comes; pictures of another shape or kind are a ValueError, and a process
    that was killed is a RuntimeError. ``make`` must not touch a GPU, which a forked process cannot use, and no other thread may
    make pictures while this begins: a lock that it holds in that moment stays locked in the new process.
    """
    size = math.prod(shape)
    if not (count and size):
        return
    places = min(count, processes * min(max(2, AHEAD // size), MOST))
    # Not in /dev/shm, of which containers have little.
    memory = np.frombuffer(mmap.mmap(-1, places * size), np.uint8).reshape(places, *shape)
    pool = ProcessPoolExecutor(processes, multiprocessing.get_context("fork"), _begin, (make, memory))
    try:
        with _forking():
            coming = deque(pool.submit(_fill, number, number) for number in range(places))
        for number in range(count):
            coming.popleft().result()
            made = memory[number % places].copy()
            if number + places < count:
                coming.append(pool.submit(_fill, number + places, number % places))
            yield made
    except BrokenProcessPool as error:
        raise RuntimeError(
            "A process that made pictures was killed or broke. If memory was short, give fewer threads (OMP_NUM_THREADS):"
            " there are two processes fewer than threads."
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _forking() -> Iterator[None]:
    """Garbage stays where it is: to collect what belongs to a GPU would end a forked process."""
    collects = gc.isenabled()
    gc.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of the locks of other threads
            yield
    finally:
        if collects:
            gc.enable()


def _begin(make: Make, memory: np.ndarray) -> None:
    global _task
    _task = make, memory
    gc.freeze()  # what the other process left behind is not this one's to collect
    gc.enable()
    # The process that forked this one ends it, and may handle signals in its own way.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this process when the one that forked it was killed."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _fill(number: int, place: int) -> None:
    make, memory = _task
    for target, picture in zip(memory[place], make(number), strict=True):
        if picture.shape != target.shape or picture.dtype != target.dtype:
            kind = f"{picture.dtype} {list(picture.shape)}"
            raise ValueError(f"a picture is {kind}, not {target.dtype} {list(target.shape)}")
        target[...] = picture
