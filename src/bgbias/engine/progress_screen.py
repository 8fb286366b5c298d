"""What a run is doing, on one screen: how far it is, which jobs are at work, how trainings fare,
and the time left. Without a terminal it is a line for each job that has ended.
"""

import csv
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any, TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from bgbias.engine import forecast
from bgbias.progress import minutes
from bgbias.study.cell import CELL

SHOWN = 12  # jobs at work; more would not fit
LOGS = "/logs/"  # in the path of every job's log, below the folder where unfinished work lies
_guess: Callable[[], Mapping[str, float]] = dict


def expect(guess: Callable[[], Mapping[str, float]]) -> None:
    """Set whom the screen of this process asks for the seconds that a job of each rule may take."""
    global _guess
    _guess = guess


@dataclass
class Work:
    """A job: what it does, when it began (seconds of ``time.monotonic``), where it logs."""

    rule: str
    subject: str
    began: float
    log: str = ""

    @property
    def label(self) -> str:
        """As people call it: ``train demo_90/tiny/contrastive/plain/seed0``."""
        return f"{self.rule} {self.subject}".strip()


@dataclass
class Course:
    """How far a run is. ``left``: jobs of each rule that have not ended; ``took``: seconds of those
    that have; ``guessed``: what one of each rule was expected to take.
    """

    left: Counter[str] = field(default_factory=Counter)
    guessed: dict[str, float] = field(default_factory=dict)
    took: dict[str, list[float]] = field(default_factory=dict)
    at_once: int = 1
    total: int = 0
    done: int = 0

    def seconds_left(self, at_work: Iterable[Work], now: float) -> float | None:
        """By what jobs of each rule took, or are guessed to take, side by side; None if unknown."""
        took = dict(self.took)  # as it is now: jobs end while the screen is drawn
        if not took and not self.guessed:
            return None
        guessed = {rule: seconds for rule, seconds in self.guessed.items() if rule in took}
        paces = {rule: (sum(took[rule]), len(took[rule]) * seconds) for rule, seconds in guessed.items()}
        pace = forecast.pace_of("", paces)

        usual = {rule: pace * seconds for rule, seconds in self.guessed.items()}
        usual |= {rule: fmean(seconds) for rule, seconds in took.items()}
        spent = sum(min(now - work.began, usual.get(work.rule, 0.0)) for work in at_work)
        whole = sum(number * usual.get(rule, 0.0) for rule, number in self.left.items())
        return max(0.0, whole - spent) / self.at_once


class Screen:
    """The screen, or lines, of one run; ``out`` is a terminal or not."""

    def __init__(self, out: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        out = out or sys.stderr
        self.course = Course()
        self._clock, self._begun = clock, clock()
        self._jobs: dict[int, Work] = {}
        self._failed: list[Work] = []
        self._console = Console(file=out, force_terminal=out.isatty())
        self._live = Live(
            console=self._console, get_renderable=self._drawn, refresh_per_second=1, transient=True
        )

    def begins(self, stats: Mapping[str, int]) -> None:
        """``stats``: how many jobs of each rule there are, and the ``total``."""
        self.course.left = Counter({rule: n for rule, n in stats.items() if rule != "total"})
        self.course.total = self.course.left.total()
        self.course.guessed = {rule: seconds for rule, seconds in _guess().items() if seconds > 0}
        if self._console.is_terminal and self.course.total:
            self._live.start()

    def started(self, job: int, rule: str, wildcards: Mapping[str, Any], log: Sequence[str]) -> None:
        whole = {"dataset", "backbone", "loss", "method", "seed"} <= wildcards.keys()
        subject = CELL.format(**wildcards) if whole else "/".join(map(str, wildcards.values()))
        self._jobs[job] = Work(rule, subject, self._clock(), str(log[0]) if log else "")
        self.course.at_once = max(self.course.at_once, len(self._jobs))

    def finished(self, job: int) -> None:
        work = self._jobs.pop(job, None)
        if work is None:
            return
        course, seconds = self.course, self._clock() - work.began
        # It may have failed before, and was tried again.
        self._failed = [failed for failed in self._failed if failed.label != work.label]
        course.done += 1
        course.left[work.rule] -= 1
        course.took.setdefault(work.rule, []).append(seconds)
        if not self._console.is_terminal:
            ended = f"{course.done} of {course.total}: {work.label}, {seconds:.0f} s"
            self.say("; ".join(filter(None, [ended, self._remaining()])))

    def failed(self, job: int) -> None:
        if work := self._jobs.pop(job, None):
            self._failed.append(work)

    def say(self, text: str) -> None:
        """A message that stays."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def ends(self) -> None:
        """The screen goes; what stays is a summary."""
        self._live.stop()
        if not self.course.total:
            return
        self.say(f"{self.course.done} of {self.course.total} jobs in {minutes(self._clock() - self._begun)}")
        for work in self._failed:
            self.say(f"failed: {work.label}; see {work.log}")
        self.course.total = 0

    def _remaining(self) -> str:
        seconds = self.course.seconds_left(list(self._jobs.values()), self._clock())
        return f"about {minutes(seconds)} left" if seconds is not None and seconds >= 1 else ""

    def _drawn(self) -> Group:
        course, now = self.course, self._clock()
        words = [f"{course.done} of {course.total} jobs", minutes(now - self._begun), self._remaining()]
        head, rows = Table.grid(padding=(0, 1)), Table.grid(padding=(0, 2))
        bar = ProgressBar(max(1, course.total), course.done, width=30)
        head.add_row(bar, ", ".join(filter(None, words)))

        at_work = list(self._jobs.values())
        for work in at_work[:SHOWN]:
            rows.add_row(f"  {work.label}", training(work), minutes(now - work.began))
        if len(at_work) > SHOWN:
            rows.add_row(f"  and {len(at_work) - SHOWN} more")
        return Group(head, rows)


def training(work: Work) -> str:
    """Epoch and best score of a training at work, or a pretraining's loss; else nothing."""
    folder, logs, _ = work.log.partition(LOGS)
    if work.rule not in ("pretrain", "train") or not logs:
        return ""
    for path in Path(folder).glob("running/*.json"):
        # Both files may be on their way, or have no epoch yet.
        with suppress(OSError, ValueError, LookupError, TypeError):
            record = json.loads(path.read_text(encoding="utf-8"))
            if record["subject"] != work.subject:
                continue
            rows = list(csv.DictReader(Path(record["history"]).read_text(encoding="utf-8").splitlines()))
            if work.rule == "pretrain":
                losses = [float(row["loss"]) for row in rows if row.get("loss")]
                epochs = record["spec"]["pretraining"]["epochs"]
                return f"epoch {len(losses)} of {epochs}, loss {losses[-1]:.3f}"
            scores = [float(row["val_map_at_r"]) for row in rows if row.get("val_map_at_r")]
            epochs = record["spec"]["train"]["max_epochs"]
            return f"epoch {len(scores)} of at most {epochs}, best validation MAP@R {100 * max(scores):.1f} %"
    return ""
