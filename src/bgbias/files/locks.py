"""One process at a time: locks that the kernel frees when their holder ends, however it ends."""

from __future__ import annotations

import fcntl
import math
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bgbias.errors import UserError
from bgbias.progress import say

SECONDS_BETWEEN_LOOKS = 0.1


class Taken(TimeoutError):
    """Another process has held a lock for too long; ``holder`` is its number, as far as its file says."""

    def __init__(self, path: Path, holder: str, seconds: float) -> None:
        super().__init__(f"process {holder} has held {path} for {seconds:.0f} s")
        self.holder = holder


@contextmanager
def locked(path: Path, seconds: float = math.inf, waiting: str = "") -> Iterator[None]:
    """Only one process is inside, on one machine or a disk that knows locks; ``path`` then holds its number.

    Another one waits for up to so many seconds, says ``waiting`` first, and gives up with ``Taken``.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    give_up = time.monotonic() + seconds
    with path.open("a+", encoding="utf-8") as file:
        while not _taken(file.fileno(), path):
            if time.monotonic() >= give_up:
                file.seek(0)
                raise Taken(path, file.read().strip() or "unknown", seconds)
            if waiting:
                say(waiting)
                waiting = ""
            time.sleep(SECONDS_BETWEEN_LOOKS)
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def _taken(descriptor: int, path: Path) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise UserError(
            f"The disk of {path.parent} has no file locks ({error.strerror}), and two processes must not do the same at once;"
            " name a local disk as paths.work in params.yaml."
        ) from error
    return True
