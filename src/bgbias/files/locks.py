"""One process at a time: locks that the kernel frees when their holder ends, however it ends."""

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from bgbias.errors import UserError
from bgbias.progress import say

SECONDS_BETWEEN_TRIES = 0.1


class LockTimeout(TimeoutError):
    """Another process has held a lock for too long; ``holder`` is its process number, or "unknown"."""

    def __init__(self, path: Path, holder: str, seconds: float) -> None:
        super().__init__(f"process {holder} has held {path} for {seconds:.0f} s")
        self.holder = holder


@contextmanager
def hold_lock(path: Path, seconds: float = math.inf, waiting: str = "", refusal: str = "") -> Iterator[None]:
    """Hold the lock at ``path``, which contains the holder's process number.

    If another process holds it, print ``waiting``, wait for up to ``seconds``, then raise ``LockTimeout``, or a ``UserError``
    that says ``refusal``, with the holder for its {}.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()  # a file that cannot be written is an error of its own
    # A lock that is only a file would outlive a killed holder: better none than such a one.
    lock = FileLock(path, fallback_to_soft=False)
    try:
        try:
            lock.acquire(timeout=0)
        except Timeout:
            if waiting and seconds > 0:
                say(waiting)
            lock.acquire(-1 if math.isinf(seconds) else seconds, SECONDS_BETWEEN_TRIES)
    except Timeout as error:
        holder = path.read_text(encoding="utf-8").strip() or "unknown"
        raise (
            UserError(refusal.replace("{}", holder)) if refusal else LockTimeout(path, holder, seconds)
        ) from error
    except OSError as error:
        raise UserError(
            f"The disk of {path.parent} has no file locks ({error.strerror}), and two processes"
            " must not do the same at once; name a local disk: as paths.work in params.yaml, or by an audit's --out."
        ) from error
    try:
        path.write_text(str(os.getpid()), encoding="utf-8")
        yield
    finally:
        lock.release()
