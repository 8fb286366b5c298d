"""What a run is doing, on one screen: how far it is, which jobs are at work, how trainings fare, and the time left.

Without a terminal it is a line for each job that has ended.
"""

from __future__ import annotations

import csv
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, TextIO

from bgbias.engine import forecast
from bgbias.files import sealed
from bgbias.progress import minutes
from bgbias.study.cell import CELL

if TYPE_CHECKING:
    from rich.console import Console, Group
    from rich.live import Live

AGAIN = 1.0  # seconds from one look to the next
SHOWN = 12  # jobs at work; more would not fit
LOGS = "/logs/"  # in the path of every job's log, below the folder where unfinished work lies
_guess: Callable[[], Mapping[str, float]] = dict


def expect(guess: Callable[[], Mapping[str, float]]) -> None:
    """Tell the screen of this process whom to ask for the seconds that a job of each rule may take: whoever plans the run."""
    global _guess
    _guess = guess


@dataclass
class Work:
    """A job: what it does, where it logs, when it began (seconds of ``time.monotonic``)."""

    rule: str
    of: str
    began: float
    log: str = ""

    @property
    def label(self) -> str:
        """As people call it: ``train demo_90/tiny/contrastive/plain/seed0``."""
        return f"{self.rule} {self.of}".strip()


@dataclass
class Course:
    """How far a run is. ``left``: jobs of each rule that have not ended; ``took``: seconds of those that have; ``guessed``: what
    one of each rule was expected to take.
    """

    left: Counter[str] = field(default_factory=Counter)
    guessed: dict[str, float] = field(default_factory=dict)
    took: dict[str, list[float]] = field(default_factory=dict)
    at_once: int = 1
    total: int = 0
    done: int = 0

    def seconds_left(self, at_work: Iterable[Work], now: float) -> float | None:
        """Every job takes what others of its rule took, or, before one has ended, what is guessed and how guesses have fared, as
        many at once as there were. None if nothing was guessed and none has ended.
        """
        took = dict(self.took)  # as it is now: jobs end while the screen is drawn
        if not took and not self.guessed:
            return None
        paces = {
            rule: (sum(seconds), len(seconds) * self.guessed[rule])
            for rule, seconds in took.items()
            if rule in self.guessed
        }
        pace = forecast.pace_of("", paces)
        usual = {
            rule: fmean(took[rule]) if rule in took else pace * self.guessed.get(rule, 0.0)
            for rule in self.left
        }
        spent = sum(min(now - work.began, usual.get(work.rule, 0.0)) for work in at_work)
        return max(0.0, sum(n * usual[rule] for rule, n in self.left.items()) - spent) / self.at_once


class Screen:
    """The screen, or lines, of one run; ``out`` is a terminal or not."""

    def __init__(self, out: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.out = out or sys.stderr
        self.course = Course()
        self._clock, self._begun = clock, clock()
        self._jobs: dict[int, Work] = {}
        self._broken: list[Work] = []
        self._console: Console | None = None
        self._live: Live | None = None
        if self.out.isatty():
            from rich.console import Console

            self._console = Console(file=self.out)

    def begins(self, stats: Mapping[str, int]) -> None:
        """``stats``: how many jobs of each rule there are, and the ``total``."""
        self.course.left = Counter({rule: n for rule, n in stats.items() if rule != "total"})
        self.course.total = sum(self.course.left.values())
        self.course.guessed = {rule: seconds for rule, seconds in _guess().items() if seconds > 0}
        if self._console and self.course.total and self._live is None:
            from rich.live import Live

            self._live = Live(
                console=self._console,
                get_renderable=self._drawn,
                refresh_per_second=1 / AGAIN,
                transient=True,
            )
            self._live.start()

    def started(self, job: int, rule: str, wildcards: Mapping[str, Any], log: Sequence[str]) -> None:
        """A job begins."""
        whole = {"dataset", "backbone", "loss", "method", "seed"} <= wildcards.keys()
        of = CELL.format(**wildcards) if whole else "/".join(map(str, wildcards.values()))
        self._jobs[job] = Work(rule, of, self._clock(), str(log[0]) if log else "")
        self.course.at_once = max(self.course.at_once, len(self._jobs))

    def finished(self, job: int) -> None:
        """This job has ended well."""
        work = self._jobs.pop(job, None)
        if work is None:
            return
        # It may have failed before, and was tried again.
        self._broken = [broken for broken in self._broken if broken.label != work.label]
        self.course.done += 1
        self.course.left[work.rule] -= 1
        seconds = self._clock() - work.began
        self.course.took.setdefault(work.rule, []).append(seconds)
        if self._console is None:
            left = self._left()
            self.say(
                f"{self.course.done} of {self.course.total}: {work.label}, {seconds:.0f} s{left and f'; {left}'}"
            )

    def failed(self, job: int) -> None:
        """This job has not."""
        if work := self._jobs.pop(job, None):
            self._broken.append(work)

    def say(self, text: str) -> None:
        """A message that stays."""
        if self._console:
            self._console.print(text, markup=False, highlight=False, soft_wrap=True)
        else:
            print(text, file=self.out, flush=True)

    def ends(self) -> None:
        """The screen goes; what stays is a summary."""
        if self._live:
            self._live.stop()
            self._live = None
        if not self.course.total:
            return
        self.say(f"{self.course.done} of {self.course.total} jobs in {minutes(self._clock() - self._begun)}")
        for work in self._broken:
            self.say(f"failed: {work.label}; see {work.log}")
        self.course.total = 0

    def _left(self) -> str:
        seconds = self.course.seconds_left(list(self._jobs.values()), self._clock())
        return f"about {minutes(seconds)} left" if seconds is not None and seconds >= 1 else ""

    def _drawn(self) -> Group:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        course, now = self.course, self._clock()
        head = Table.grid(padding=(0, 1))
        said = f"{course.done} of {course.total} jobs, {minutes(now - self._begun)}"
        head.add_row(
            ProgressBar(max(1, course.total), course.done, width=30),
            ", ".join(filter(None, [said, self._left()])),
        )
        rows = Table.grid(padding=(0, 2))
        at_work = list(self._jobs.values())
        for work in at_work[:SHOWN]:
            rows.add_row(f"  {work.label}", training(work), minutes(now - work.began))
        if len(at_work) > SHOWN:
            rows.add_row(f"  and {len(at_work) - SHOWN} more", "", "")
        return Group(head, rows)


def training(work: Work) -> str:
    """Of a training at work its epoch and the best score so far, of a pretraining, which has no score, its loss; nothing of other
    jobs, or before the first epoch.
    """
    folder, found, _ = work.log.partition(LOGS)
    if work.rule not in ("pretrain", "train") or not found:
        return ""
    for path in Path(folder).glob("running/*.json"):
        try:
            record = sealed.read(path)
            if record.get("subject") != work.of or not record.get("history"):
                continue
            # The last line may be on its way.
            rows = list(
                csv.DictReader(Path(record["history"]).read_text(encoding="utf-8").splitlines(keepends=True))
            )
            scores = [float(row["val_map_at_r"]) for row in rows if row.get("val_map_at_r")]
            if work.rule == "pretrain" and (done := [row for row in rows if row.get("loss")]):
                epochs = record["spec"]["pretraining"]["epochs"]
                return f"epoch {len(done)} of {epochs}, loss {float(done[-1]['loss']):.3f}"
            most = record["spec"]["train"]["max_epochs"]
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if scores:
            return f"epoch {len(scores)} of at most {most}, best validation MAP@R {100 * max(scores):.1f} %"
    return ""
