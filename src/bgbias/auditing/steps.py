"""How far an audit is: one line that says what is being done and how long the rest takes."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from bgbias.progress import SECONDS_BETWEEN_LINES, minutes, say


class Steps:
    """Steps of work with their forecast seconds; what a step really takes per thing replaces its forecast."""

    def __init__(self, seconds: Mapping[str, float]) -> None:
        self._left = dict(seconds)
        self.took: dict[str, float] = {}

    @contextmanager
    def step(self, name: str, total: int) -> Iterator[Callable[[int], None]]:
        """A step over ``total`` things; what is given is told how many more are done."""
        self._left.pop(name, None)
        begun = shown = time.monotonic()
        finished, live = 0, sys.stderr.isatty()

        def done(more: int) -> None:
            nonlocal finished, shown
            finished += more
            now = time.monotonic()
            if now - shown < (0.5 if live else SECONDS_BETWEEN_LINES) or not finished:
                return
            shown = now
            left = (total - finished) * (now - begun) / finished + sum(self._left.values())
            text = f"{name}: {finished} of {total}, about {minutes(left)} left in all"
            if live:
                print(f"\r\x1b[2K{text}", end="", file=sys.stderr, flush=True)
            else:
                say(text)

        try:
            yield done
        finally:
            self.took[name] = time.monotonic() - begun
            if live:
                print("\r\x1b[2K", end="", file=sys.stderr, flush=True)
