"""Published results made again: each number the same, within its spread, or different; and which row vouches for an edit.

On another machine a training takes another path after its first rounding, as with another seed. The spread of a number is
therefore that of the difference of two results of independent trainings, each with its own interval: the root of the sum of
squares of their halves. It is on the safe side, since classes and photos are the same both times. Of many numbers one in twenty
lies outside of it by chance; all of them together are different if more do than chance allows (binomial, 5 %), or if one lies as
far outside as none of so many would (Bonferroni).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from bgbias.engine import graph
from bgbias.report import tables
from bgbias.report.columns import NOTHING, Number
from bgbias.report.names import NOT_TRAINED
from bgbias.report.pages import OF_SEEDS
from bgbias.results import publication
from bgbias.results.publication import SEEDS, Publication, lines
from bgbias.results.rows import MODEL, Model
from bgbias.results.uncertainty import CONFIDENCE
from bgbias.study import plan
from bgbias.study.cell import PLAIN, side_by_side
from bgbias.study.params import Study

SAME, WITHIN, OUTSIDE, DIFFERENT = "same", "within spread", "outside", "different"
NOT_JUDGED = "not judged"
COUNTS = ("seeds", "folds", "draws", "queries", "classes", "images", "episodes")
HEAD = ("", "number", "published", "now", "")


@dataclass(frozen=True)
class Compared:
    """A number as it was published and as it was made again, both as printed.

    ``verdict``: ``same``; ``within spread`` of two results; ``outside`` of it; ``different``, further than chance goes among so
    many; ``not judged``, another number, which was published without an interval, as spreads over seeds are. ``spreads``: by
    how many of its spreads it differs; NaN without one, infinite where chance has no part.
    """

    model: Model
    table: str
    number: str
    published: str
    now: str
    spreads: float
    verdict: str = SAME


def compare(
    published: Mapping[str, pd.DataFrame],
    now: Mapping[str, pd.DataFrame],
    models: Collection[Model] | None = None,
) -> list[Compared]:
    """Every number of ``published`` tables against those of now; of ``models`` alone, if they were made alone.

    The star of a difference depends on how many models are compared: of models that were made alone it is not looked at.
    """
    found: list[Compared] = []
    for name, table in published.items():
        keys = [*MODEL, "seed"] if name == SEEDS else MODEL
        made = {_key(row, keys): row for row in lines(now[name])} if name in now else {}
        for row in lines(table):
            model: Model = _key(row, MODEL)
            if models is None or (model in models and name in now):
                again = made.get(_key(row, keys), {})
                for number in _numbers(name, table, starred=models is None):
                    of = f"{number.column}, seed {row['seed']}" if name == SEEDS else number.column
                    said = number(row), number(again) if number.column in again else NOTHING
                    if said != (NOTHING, NOTHING):
                        found.append(Compared(model, name, of, *said, _spreads_apart(number, row, again)))
    judged = _judged(found)
    found = [
        one if one.published == one.now else replace(one, verdict=_verdict(one.spreads, judged))
        for one in found
    ]
    order = list(dict.fromkeys(one.model for one in found))
    return sorted(found, key=lambda one: order.index(one.model))


def verdict(found: Collection[Compared]) -> str:
    """That of all numbers together: ``same`` if all are."""
    from scipy.stats import binom

    verdicts = [one.verdict for one in found]
    by_chance = binom.ppf(CONFIDENCE, _judged(found), 1 - CONFIDENCE)
    if DIFFERENT in verdicts or verdicts.count(OUTSIDE) > by_chance:
        return DIFFERENT
    return SAME if set(verdicts) == {SAME} else WITHIN


def told(found: Collection[Compared]) -> str:
    """Numbers as plain text, those of a model together; at most 110 columns wide."""
    shown: list[tuple[str, ...]] = [HEAD]
    shown += [(c.table, c.number, c.published, c.now, c.verdict) for c in found]
    widths = [max(len(line[i]) for line in shown) for i in range(len(HEAD))]
    said = ["  ".join(word.ljust(width) for word, width in zip(line, widths, strict=True)) for line in shown]
    text, model = [said[0]], None
    for one, line in zip(found, said[1:], strict=True):
        if one.model != model:
            model = one.model
            text.append(f"── {'/'.join(model)} ".ljust(sum(widths) + 2 * len(HEAD), "─"))
        text.append(line)
    return "\n".join(line.rstrip() for line in text)


def sentence(found: Collection[Compared]) -> str:
    """The verdict, and how many numbers it rests on."""
    counts = {
        v: sum(one.verdict == v for one in found) for v in (SAME, WITHIN, OUTSIDE, DIFFERENT, NOT_JUDGED)
    }
    of_all = verdict(found)
    if of_all == SAME:
        return f"same: all {len(found)} numbers are as printed."
    said = [
        f"{counts[SAME]} of {len(found)} numbers are as printed",
        f"{counts[WITHIN]} are within the spread of two such results",
    ]
    if counts[OUTSIDE]:
        chance = (
            "more than chance allows"
            if of_all == DIFFERENT and not counts[DIFFERENT]
            else "by chance one in twenty is"
        )
        said.append(f"{counts[OUTSIDE]} outside of it, {chance}")
    if counts[DIFFERENT]:
        said.append(f"{counts[DIFFERENT]} are not what was published")
    if counts[NOT_JUDGED]:
        said.append(f"{counts[NOT_JUDGED]} others have no interval and are not judged")
    return f"{of_all}: {'; '.join(said)}."


def row_of(study: Study, model: Model) -> Study:
    """The grid of one row: its model, and the plain one that it is compared with."""
    alone, length = side_by_side(model[-1])
    plain = (*model[:-1], PLAIN + (f"+{length}d" if length else ""))
    models = [model] if alone in (*NOT_TRAINED, PLAIN) else [plain, model]
    return study.model_copy(update={"cells": plan.blocks_of(study, models)})


def vouched(study: Study, model: Model) -> set[str]:
    """The files and libraries that the row of a model vouches for: all that its steps work by.

    A row that is compared with no other one does not vouch for what makes tables, if the grid has rows that are.
    """
    row = row_of(study, model)
    nodes = graph.in_order(row)
    known = publication.code_of(row, nodes)
    names = {*known["files"], *known["libraries"]}
    compared = {cell.method for cell in plan.cells(study)} - {*NOT_TRAINED, PLAIN}
    if compared and not {cell.method for cell in plan.cells(row)} & compared:
        others = publication.code_of(row, [node for node in nodes if node.name not in ("collect", "table")])
        names &= {*others["files"], *others["libraries"]}
    return names


def best_row(published: Publication, study: Study) -> str:
    """The row that vouches for most of the edited code by the fewest models; empty if a row alone cannot."""
    edited = set(publication.edited(published, study))
    models = published.table(published.tables[0])[MODEL].itertuples(index=False, name=None)
    by = {"/".join(m): (len(edited & vouched(study, m)), -len(plan.cells(row_of(study, m)))) for m in models}
    best = max(by, key=lambda name: by[name])
    return best if by[best][0] or edited == {"imports"} else ""


def _numbers(name: str, table: pd.DataFrame, starred: bool) -> list[Number]:
    """What of a table is compared: numbers that are printed, but for papers' and ours minus those; and counts."""
    printed = OF_SEEDS if name == SEEDS else tables.load(name).COLUMNS
    numbers = [c.text for c in printed if isinstance(c.text, Number) and c.text.column in table]
    own = [
        replace(n, starred=n.starred and starred) for n in numbers if not n.column.startswith("difference_")
    ]
    return [Number(count, 0) for count in COUNTS if count in table] + own


def _spreads_apart(number: Number, row: Mapping[str, Any], again: Mapping[str, Any]) -> float:
    """By how many spreads of their difference two results differ; NaN without an interval, infinite if it cannot be chance."""
    if number.column not in again or number.column in COUNTS:
        return math.inf
    ends = [
        (of.get(f"{number.column}_low", math.nan), of.get(f"{number.column}_high", math.nan))
        for of in (row, again)
    ]
    if math.isnan(ends[0][0]):
        return math.nan
    # The longer half, since an interval ends where a number can go no further.
    halves = [
        max(of[number.column] - low, high - of[number.column])
        for of, (low, high) in zip((row, again), ends, strict=True)
    ]
    spread = math.hypot(*(half for half in halves if not math.isnan(half)))
    apart = abs(again[number.column] - row[number.column])
    return apart / spread if spread and not math.isnan(apart) else math.inf


def _judged(found: Collection[Compared]) -> int:
    return sum(math.isfinite(one.spreads) for one in found)


def _verdict(spreads: float, of: int) -> str:
    """That on a number which differs by so many spreads, one ``of`` so many that have one."""
    from scipy.special import ndtri

    if math.isnan(spreads):
        return NOT_JUDGED
    if spreads <= 1:
        return WITHIN
    alone, among = (ndtri(1 - (1 - CONFIDENCE) / 2 / numbers) for numbers in (1, of))
    return OUTSIDE if spreads <= among / alone else DIFFERENT


def _key(row: Mapping[str, Any], keys: Collection[str]) -> Any:
    return tuple(row[key] for key in keys)
