"""Signals end a command where no lock is lost.

Python calls a signal's handler between any two instructions of the main thread. What it raises when a lock was taken,
and the block that gives it back has not begun, leaves the lock taken: whoever wants it next, another thread or this one at its
end, waits for ever. The standard library's modules of threads take such locks for every batch that is made ahead. So while the
main thread is in one of them, the handler is called a moment later.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType

Handler = Callable[[int, FrameType | None], object]

_LIBRARY = Path(threading.__file__).parent
TAKE_LOCKS = tuple(str(_LIBRARY / name) for name in ("threading.py", "queue.py", "concurrent"))
MOMENT = 0.01  # seconds
# Whoever is seen there so often waits for somebody, in an instruction that may be interrupted.
MOMENTS = 30


def put_off(handler: Handler) -> Handler:
    """A handler of signals that calls ``handler`` when the main thread is in none of those modules, or was in one whenever it was
    looked at in ``MOMENTS``: for one that raises something, or takes such a lock itself. It uses the process's alarm, SIGALRM.
    """

    def handled(number: int, frame: FrameType | None) -> None:
        _call(handler, number, frame, MOMENTS)

    return handled


def _call(handler: Handler, number: int, frame: FrameType | None, moments: int) -> None:
    if not (moments and _takes_locks(frame)):
        handler(number, frame)
        return
    signal.signal(signal.SIGALRM, lambda _, later: _call(handler, number, later, moments - 1))
    signal.setitimer(signal.ITIMER_REAL, MOMENT)


def _takes_locks(frame: FrameType | None) -> bool:
    """Whether the frame, or one that called it, is in one of those modules."""
    while frame is not None:
        if frame.f_code.co_filename.startswith(TAKE_LOCKS):
            return True
        frame = frame.f_back
    return False
