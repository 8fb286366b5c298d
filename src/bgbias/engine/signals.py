"""Signals that end a command come where they leave no lock behind.

Python calls a signal's handler between any two instructions of the main thread. What it raises when a lock was taken,
and the block that gives it back has not begun, leaves the lock taken: whoever wants it next, another thread or this one at its
end, waits for ever. The standard library's modules of threads take such locks for every batch that is made ahead. So while the
main thread is in one of them, the signal is sent again a moment later.
"""

from __future__ import annotations

import _thread
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

Handler = Callable[[int, FrameType | None], object]

_LIBRARY = Path(threading.__file__).parent
_MODULES = ("threading.py", "queue.py", "concurrent", "logging", "multiprocessing/synchronize.py")
TAKE_LOCKS = tuple(str(_LIBRARY / name) for name in _MODULES)
INTERVAL = 0.01  # seconds
# Whoever is found there so often most likely waits for somebody, in an instruction that may be interrupted.
MOST_LOOKS = 30


class Deferred:
    """A handler of one signal that calls ``handler`` when the main thread is in none of those modules, or was found in one in
    ``MOST_LOOKS`` looks: for a handler that raises something, or takes such a lock itself. What comes again meanwhile is one
    signal. Of a handler that is deferred already it is the same.
    """

    def __init__(self, handler: Handler) -> None:
        self._handler: Handler = handler._handler if isinstance(handler, Deferred) else handler
        self._looks = 0  # since a signal was deferred
        self._sent = False  # by this object, and not come yet

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Take a signal, in the main thread."""
        sent, self._sent = self._sent, False
        if sent and not self._looks:
            return  # another one came first
        if _takes_locks(frame) and self._looks < MOST_LOOKS:
            if sent or not self._looks:
                self._looks += 1
                # A thread of threading's would take such locks itself.
                _thread.start_new_thread(self._send_again, (_thread.get_ident(), number))
            return
        self._looks = 0
        self._handler(number, frame)

    def _send_again(self, main_thread: int, number: int) -> None:
        time.sleep(INTERVAL)
        if self._looks:
            self._sent = True
            signal.pthread_kill(main_thread, number)  # which also ends its waiting for a moment


def _takes_locks(frame: FrameType | None) -> bool:
    """Whether the frame, or one that called it, is in one of those modules."""
    while frame is not None:
        if frame.f_code.co_filename.startswith(TAKE_LOCKS):
            return True
        frame = frame.f_back
    return False
