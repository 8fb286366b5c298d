"""What several processes make beside this one, in its order.

Each has a pipe of its own, and ends when it sends and nobody reads. torch's ``DataLoader`` has one pipe for all of its processes:
it may wait for ever when one of them is killed, and they may stay when this process is killed.
"""

import gc
import multiprocessing
import pickle
import signal
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import TypeVar

from bgbias.errors import UserError

T = TypeVar("T")


def make_in_workers(make: Callable[[int], T], count: int, processes: int) -> Iterator[T]:
    """``make(0)`` to ``make(count - 1)``, by so many processes, which see all that this one has opened.

    A UserError of ``make`` is raised here when its turn comes, any other error as a RuntimeError, as is the death of a process.
    ``make`` must not touch a GPU, which a forked process cannot use.
    """
    fork = multiprocessing.get_context("fork")
    workers, pipes = [], list[Connection]()
    processes = min(processes, count)
    try:
        for number in range(processes):
            ours, theirs = fork.Pipe(duplex=False)
            pipes.append(ours)
            arguments = make, range(number, count, processes), theirs, list(pipes)
            worker = fork.Process(target=_work, args=arguments, daemon=True)
            gc.freeze()  # garbage stays where it is: to collect what belongs to a GPU would end a forked process
            try:
                worker.start()
            finally:
                gc.unfreeze()
                theirs.close()
            workers.append(worker)
        for number in range(count):
            try:
                result = pipes[number % processes].recv()
            except (EOFError, OSError):
                raise RuntimeError(
                    "A process that made pictures was killed or broke. If memory was short, give fewer --workers or threads"
                    " (OMP_NUM_THREADS)."
                ) from None
            if isinstance(result, Exception):
                raise result
            yield result
    finally:
        for worker, pipe in zip(workers, pipes, strict=False):
            worker.kill()
            pipe.close()
        for worker in workers:
            worker.join()


def _work(
    make: Callable[[int], object], numbers: range, pipe: Connection, inherited: Sequence[Connection]
) -> None:
    # Open here, these would keep others from noticing that nobody reads what they send.
    for end in inherited:
        end.close()
    # The process that forked this one ends it, and may handle signals in its own way.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with suppress(ConnectionError):  # nobody waits any more
        for number in numbers:
            try:
                content = pickle.dumps(make(number))
            except Exception as error:
                failure = UserError(str(error)) if isinstance(error, UserError) else RuntimeError(repr(error))
                failure.add_note(f"In a process of its own:\n{traceback.format_exc()}")
                pipe.send(failure)
                return
            pipe.send_bytes(content)
