"""How long work shows that it is alive: a bar on a terminal, a line now and then in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")
SECONDS_BETWEEN_LINES = 20.0


def say(text: str) -> None:
    """One line for the person or the log."""
    print(text, file=sys.stderr, flush=True)


def minutes(seconds: float) -> str:
    """``45 s``, ``12 min``, ``3 h 05 min``."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    whole = round(seconds / 60)
    return f"{whole} min" if whole < 100 else f"{whole // 60} h {whole % 60:02} min"


def track(things: Iterable[T], total: int | None, label: str) -> Iterator[T]:
    """The things, one by one, while the share that is done, the rate and the time left are shown (``total`` unknown: None)."""
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import track as bar

        yield from bar(things, description=label, total=total, console=Console(stderr=True), transient=True)
        return
    begun = shown = time.monotonic()
    for done, thing in enumerate(things, 1):
        yield thing
        now = time.monotonic()
        if now - shown > SECONDS_BETWEEN_LINES and done != total:
            shown = now
            rate = done / (now - begun)
            left = f" of {total}, about {minutes((total - done) / rate)} left" if total else ""
            say(f"{label}: {done}{left} ({rate:.1f}/s)")
