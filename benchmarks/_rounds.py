"""Contenders take turns, so that whatever else the machine does meanwhile befalls them all."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks import Contender
from benchmarks._allocation import suit


def take_turns(
    contenders: Sequence[Contender],
    rounds: int,
    finish: Callable[[], None] = lambda: None,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[dict[str, list[float]], dict[str, Any]]:
    """Seconds of every round, and the last result, of each contender that can run.

    Everyone runs once beforehand, untimed. Then come ``rounds`` rounds, A B C and C B A by turns. ``finish`` waits for a device
    that works on by itself. A peer's allocator hands memory back that ours keeps: where the allocator changes hands, the next one
    runs once untimed, whoever it is, so as not to pay for pages that a program of its own would still have.
    """
    able = [(c.name, c.role, c.run) for c in contenders if c.run is not None]
    seconds: dict[str, list[float]] = {name: [] for name, _, _ in able}
    results: dict[str, Any] = {}
    before = ""
    for number in range(1 + rounds):
        for name, role, run in reversed(able) if number % 2 == 0 else able:
            suit(role)
            if before and (before == "peer") != (role == "peer"):
                run()
            before = role
            gc.collect()
            finish()
            begun = clock()
            results[name] = run()
            finish()
            if number > 0:
                seconds[name].append(clock() - begun)
    return seconds, results
