"""How long work shows that it is alive: a bar on a terminal and in a notebook, a line now and then in a log."""

import sys
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TextIO, TypeVar

from rich import filesize

T = TypeVar("T")
SECONDS_BETWEEN_LINES = 20.0
UNSEEN = ("Cc", "Cf", "Cs")  # Unicode's control and format characters, and bytes that are no text


def printable(text: str) -> str:
    """The text with escapes in the place of what a terminal obeys or hides, as names of files may have it."""
    return "".join(
        ascii(c)[1:-1] if unicodedata.category(c) in UNSEEN and c not in "\n\t" else c for c in text
    )


def say(text: str, out: TextIO | None = None) -> None:
    """Lines for the person or the log, by standard error unless ``out`` is another stream."""
    print(printable(text), file=out or sys.stderr, flush=True)


def size(count: float) -> str:
    """Bytes: ``820 bytes``, ``12.3 MB``, ``4.0 GB``."""
    return filesize.decimal(round(count))


def minutes(seconds: float) -> str:
    """``45 s``, ``12 min``, ``3 h 05 min``, ``2.5 days``."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    whole = round(seconds / 60)
    if whole < 100:
        return f"{whole} min"
    return f"{whole // 60} h {whole % 60:02} min" if whole < 48 * 60 else f"{whole / 1440:,.1f} days"


def track(things: Iterable[T], total: int | None, label: str) -> Iterator[T]:
    """The things, one by one, while the share that is done, the rate and the time left are shown (``total`` unknown: None)."""
    with showing(total, label) as advance:
        for thing in things:
            yield thing
            advance(1)


@contextmanager
def showing(total: int | None, label: str) -> Iterator[Callable[[int], object]]:
    """The same of work that tells by itself, to what it is given, how many more things are done."""
    if sys.stderr.isatty() or "ipykernel" in sys.modules:
        from tqdm.auto import tqdm

        with tqdm(total=total, desc=printable(label), leave=False, dynamic_ncols=True) as bar:
            yield bar.update
        return
    began = last = time.monotonic()
    done = 0

    def advance(more: int) -> None:
        nonlocal done, last
        done += more
        now = time.monotonic()
        if now - last > SECONDS_BETWEEN_LINES and 0 < done != total:
            last = now
            rate = done / (now - began)
            remaining = f" of {total}, about {minutes((total - done) / rate)} left" if total else ""
            say(f"{label}: {done}{remaining} ({rate:.1f}/s)")

    yield advance
