"""Contenders take turns, so that whatever else the machine does meanwhile befalls them all."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from typing import Any

from bgbias.benchmarks import Contender


def take_turns(
    contenders: Sequence[Contender],
    rounds: int,
    finish: Callable[[], None] = lambda: None,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[dict[str, list[float]], dict[str, Any]]:
    """Seconds of every round, and the last result, of each contender that can run.

    Everyone runs once beforehand, untimed. Then come ``rounds`` rounds, A B C and C B A by turns. ``finish`` waits for a device
    that works on by itself.
    """
    able = [(contender.name, contender.run) for contender in contenders if contender.run is not None]
    results = {name: run() for name, run in able}
    seconds: dict[str, list[float]] = {name: [] for name, _ in able}
    for number in range(rounds):
        for name, run in able if number % 2 == 0 else reversed(able):
            gc.collect()
            finish()
            begun = clock()
            results[name] = run()
            finish()
            seconds[name].append(clock() - begun)
    return seconds, results
