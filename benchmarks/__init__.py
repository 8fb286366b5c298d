"""Comparisons of speed: ours, what people would run instead, and the most that the machine gives.

``_cases.py`` is the table of all of them: title, devices, threads, rounds, what is compared (``contenders(device, tiny)``, which
are prepared: loading and random data are not timed), and what is concluded (``judge(measured)``: ratios, differences, exponents,
each with its bar). Heavy imports stay inside these functions: the command reads the whole table. ``tiny`` asks for
sizes that say nothing of speed and are done at once, so that a test can run every line.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

Role = Literal["ours", "peer", "limit"]


@dataclass(frozen=True)
class Contender:
    """One way to do the work. ``run`` does it once; what it returns is kept for ``judge``. ``missing``: why it cannot run here,
    and how to get it.
    """

    name: str
    role: Role
    run: Callable[[], Any] | None
    missing: str = ""


@dataclass(frozen=True)
class Figure:
    """A number that a comparison ends in: one value a round, or a single one; with its bar, if it has one."""

    what: str
    values: Sequence[float]
    at_least: float | None = None
    at_most: float | None = None
    unit: str = ""
    missing: str = ""


@dataclass(frozen=True)
class Measured:
    """What the rounds gave, by contender: seconds of every round, the last result, and extra memory in MB."""

    device: str
    tiny: bool
    seconds: Mapping[str, Sequence[float]]
    results: Mapping[str, Any]
    missing: Mapping[str, str] = field(default_factory=dict)
    megabytes: Mapping[str, float] = field(default_factory=dict)

    def ratio(
        self, what: str, of: str, by: str, at_least: float | None = None, at_most: float | None = None
    ) -> Figure:
        """The seconds of one contender by those of another, round by round."""
        missing = "; ".join(dict.fromkeys(self.missing[n] for n in (of, by) if n in self.missing))
        pairs = zip(self.seconds.get(of, ()), self.seconds.get(by, ()), strict=not missing)
        return Figure(what, [a / b for a, b in pairs], at_least, at_most, "x", missing)

    def rate(self, what: str, of: str, things: int, unit: str = "/s") -> Figure:
        """How many things a second a contender did, round by round."""
        rates = [things / seconds for seconds in self.seconds.get(of, ())]
        return Figure(what, rates, unit=unit, missing=self.missing.get(of, ""))


@dataclass(frozen=True)
class Comparison:
    """A row of the table. ``threads``: what every contender has, by OMP_NUM_THREADS, None for as many as there are cores;
    ``memory``: the contenders whose extra memory counts, which may not be missing.
    """

    title: str
    devices: tuple[str, ...]
    contenders: Callable[[str, bool], Iterator[Contender]]
    judge: Callable[[Measured], list[Figure]]
    threads: int | None = None
    rounds: int = 5
    clock: Callable[[], float] = time.perf_counter
    memory: tuple[str, ...] = ()


def surroundings(**changed: str) -> dict[str, str]:
    """The environment of a process that is started from any folder and finds these comparisons."""
    paths = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))} | changed


def peer(name: str, package: str, prepare: Callable[[], Callable[[], Any]]) -> Contender:
    """A contender that needs ``package``, which this project does not; without it, one that is missing."""
    if find_spec(package) is None:
        return Contender(name, "peer", None, f"{package} is not installed; `make bench` installs it")
    return Contender(name, "peer", prepare())


def exponents(sizes: Sequence[int], rounds: Sequence[Sequence[float]]) -> list[float]:
    """How cost grows with size, the power p of c + a n^p: one a round, of the times (seconds) at sizes that double, the slope of
    log differences over log sizes.

    t(2n) - t(n) is a (2^p - 1) n^p, whatever the constant cost c. NaN where a larger size took less time.
    """
    import numpy as np

    grown = np.diff(np.asarray(rounds, float), axis=1)
    logs = np.log(np.where(grown > 0, grown, np.nan))
    return [float(np.polyfit(np.log(sizes[:-1]), row, 1)[0]) for row in logs]
