"""Comparisons of speed: bgbias, what people would run instead, and the most that the machine gives.

``cases.yaml`` is the table of all comparisons. Each is a function of its own name in a module of this package: it prepares data,
which is not timed, and returns a ``Case``. Its arguments are the device and sizes. The sizes for ``--tiny`` say nothing of speed:
they are for tests, which run every line.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from bgbias.settings import read_yaml

Run = Callable[[], Any]
"""Does the work once; what it returns is the contender's result."""


@dataclass(frozen=True)
class Measured:
    """What the rounds gave, by contender: seconds of every round, the last result, and extra memory in MB."""

    seconds: Mapping[str, Sequence[float]]
    results: Mapping[str, Any]
    megabytes: Mapping[str, float] = field(default_factory=dict)


Values = Callable[[Measured], float | Sequence[float]]


@dataclass(frozen=True)
class Figure:
    """A number that a comparison ends in, with its bar: one value a round, or a single one."""

    what: str
    values: Values | float
    at_least: float | None = None
    at_most: float | None = None
    unit: str = ""


@dataclass(frozen=True)
class Case:
    """Contenders by name, and the figures that they give. In place of a run a text says why the contender cannot run here."""

    figures: Sequence[Figure]
    ours: Mapping[str, Run | str]
    peers: Mapping[str, Run | str] = field(default_factory=dict)
    limits: Mapping[str, Run | str] = field(default_factory=dict)

    @property
    def contenders(self) -> dict[str, tuple[str, Run | str]]:
        """Role (ours, peer, limit) and run of every contender."""
        roles = {"ours": self.ours, "peer": self.peers, "limit": self.limits}
        return {name: (role, run) for role, runs in roles.items() for name, run in runs.items()}


def ratio(of: str, by: str) -> Values:
    """The seconds of one contender by those of another, round by round."""
    return lambda m: [a / b for a, b in zip(m.seconds[of], m.seconds[by], strict=True)]


def rate(of: str, things: int) -> Values:
    """How many things a second a contender did, round by round."""
    return lambda m: [things / seconds for seconds in m.seconds[of]]


def seconds(of: str, factor: float = 1) -> Values:
    """The seconds of a contender times ``factor``, round by round."""
    return lambda m: [factor * one for one in m.seconds[of]]


def result(of: str, key: str = "") -> Values:
    """What a contender returned last, or one of the numbers that it returned by name."""
    return lambda m: m.results[of][key] if key else m.results[of]


def difference(of: str, by: str) -> Values:
    """The largest difference of two contenders' results, which are numbers or arrays."""
    return lambda m: float(np.abs(np.subtract(m.results[of], m.results[by])).max())


def exponents(sizes: Sequence[int], rounds: Sequence[Sequence[float]]) -> list[float]:
    """How cost grows with size, the power p of c + a n^p: one a round, of the times (seconds) at sizes that double, the slope of
    log differences over log sizes.

    t(2n) - t(n) is a (2^p - 1) n^p, whatever the constant cost c. NaN where a larger size took less time.
    """
    grown = np.diff(np.asarray(rounds, float), axis=1)
    logs = np.log(np.where(grown > 0, grown, np.nan))
    return [float(np.polyfit(np.log(sizes[:-1]), row, 1)[0]) for row in logs]


@dataclass(frozen=True)
class Comparison:
    """How a case is to be run: ``cases.yaml`` explains it."""

    title: str
    module: str
    tiny: Mapping[str, Any]
    cuda: Mapping[str, Any] = field(default_factory=dict)
    devices: Sequence[str] = ("cpu", "cuda")
    threads: int | None = None
    rounds: int = 5
    clock: str = "perf_counter"
    memory: Sequence[str] = ()


TABLE = read_yaml(Path(__file__).with_name("cases.yaml"))
CASES = {name: Comparison(title, **options) for name, (title, options) in TABLE.items()}


def prepare(name: str, device: str, tiny: bool) -> Case:
    """The case of a comparison, at the sizes of the device or at tiny ones."""
    row = CASES[name]
    of_device = row.cuda if device.startswith("cuda") else {}
    function = getattr(import_module(f"benchmarks.{row.module}"), name)
    case: Case = function(device, **{**of_device, **(row.tiny if tiny else {})})
    return case
