"""Comparisons of speed: ours, what people would run instead, and the most that the machine gives.

A file here is one comparison, or several that share what they measure with (``SHARED``); `python -m benchmarks` finds each by its
name. A comparison declares

``TITLE``                       what is done, with its size;
``DEVICES``                     where it can be measured: "cpu", "cuda";
``THREADS``                     what every contender has, by OMP_NUM_THREADS; None: as many as there are cores;
``contenders(device, tiny)``    the contenders, prepared: loading and random data are not timed;
``judge(measured)``             what is concluded: ratios, differences, exponents, each with its bar.

and, where they differ from these, ``ROUNDS`` = 5; ``CLOCK`` = ``time.perf_counter``; and ``MEMORY`` = (), the names of the
contenders whose extra memory counts; these may not be missing.
Heavy imports stay inside the functions: the command reads what all files declare. ``tiny`` asks for sizes that say nothing of
speed and are done at once, so that a test can run every line.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from bgbias import plugins

plugins.FAMILIES["benchmarks"] = "benchmarks"
SHARED = {
    "_precision": ("precision", "mask_precision"),
    "_retrieval": ("retrieval", "retrieval_million"),
    "_training": ("training_step", "training_gpu", "attack_step", "many_cells"),
    "_views": ("training_batches", "evaluation_views", "heldout", "conditions", "kept_pictures"),
}

Role = Literal["ours", "peer", "limit"]
INSTALL = "not installed; `make bench` installs it"


@dataclass(frozen=True)
class Contender:
    """One way to do the work. ``run`` does it once; what it returns is kept for ``judge``."""

    name: str
    role: Role
    run: Callable[[], Any] | None
    missing: str = ""
    """Why it cannot run here, and how to get it."""


def surroundings(**changed: str) -> dict[str, str]:
    """The environment of a process that is started from any folder and finds these comparisons."""
    found = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, found))} | changed


def peer(name: str, package: str, prepare: Callable[[], Callable[[], Any]]) -> Contender:
    """A contender that needs ``package``, which this project does not; without it, one that is missing."""
    if find_spec(package) is None:
        return Contender(name, "peer", None, f"{package} is {INSTALL}")
    return Contender(name, "peer", prepare())


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

    def rate(self, what: str, of: str, things: int, unit: str, at_least: float | None = None) -> Figure:
        """How many things a second a contender did, round by round."""
        return Figure(
            what,
            [things / s for s in self.seconds.get(of, ())],
            at_least,
            unit=unit,
            missing=self.missing.get(of, ""),
        )


def exponents(sizes: Sequence[int], rounds: Sequence[Sequence[float]]) -> list[float]:
    """How cost grows with size, the power p of c + a n^p: one a round, of the times (seconds) at sizes that double, the slope of
    log differences over log sizes.

    t(2n) - t(n) is a (2^p - 1) n^p, whatever the constant cost c. NaN where a larger size took less time.
    """
    import numpy as np

    size, times = np.asarray(sizes, float), np.asarray(rounds, float)
    if not np.allclose(size[1:] / size[:-1], 2):
        raise ValueError(f"sizes must double: {sizes}")
    grown = np.diff(times, axis=1)
    logs = np.log(np.where(grown > 0, grown, np.nan))
    return [float(np.polyfit(np.log(size[:-1]), row, 1)[0]) for row in logs]
