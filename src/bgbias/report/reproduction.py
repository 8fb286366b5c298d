"""Published results made again: is each number identical, within the interval, or different?

On another machine a training takes another path after its first rounding, as with another seed. The interval is therefore that
of the difference of two results of independent trainings, each with its own interval: half as long as the root of the sum of
squares of their halves. It is on the safe side, since classes and photos are the same both times. Of many numbers one in twenty
lies outside of it by chance; all of them together are different if more do than chance allows (binomial, 5 %), or if one lies as
far outside as none of so many would (Bonferroni).
"""

import itertools
import math
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from bgbias.report import prose, tables
from bgbias.report.columns import NOTHING, Number
from bgbias.report.names import NOT_TRAINED
from bgbias.report.pages import OF_SEEDS
from bgbias.results.publication import SEEDS
from bgbias.results.rows import MODEL, Model, read_estimate, records
from bgbias.results.uncertainty import CONFIDENCE
from bgbias.study import plan
from bgbias.study.cell import PLAIN, side_by_side
from bgbias.study.params import Study

IDENTICAL, WITHIN, DIFFERENT = "identical", "within the interval", "different"
NOT_JUDGED = "without an interval"
VERDICTS = (IDENTICAL, WITHIN, DIFFERENT, NOT_JUDGED)
COUNTS = ("seeds", "folds", "draws", "queries", "classes", "images", "episodes")
TEMPLATE = "reproduction.j2"
HEAD = ("table", "number", "published", "now", "")


@dataclass(frozen=True)
class Comparison:
    """A number as it was published and as it was made again, both as printed.

    ``distance``: by how many half intervals of their difference the two differ; NaN without an interval, as spreads over seeds
    are published, infinite where chance has no part.
    """

    model: Model
    table: str
    number: str
    published: str
    now: str
    distance: float

    @property
    def verdict(self) -> str:
        """One of ``identical``, ``within the interval``, ``different`` and ``without an interval``, which judges nothing."""
        if self.published == self.now:
            return IDENTICAL
        if math.isnan(self.distance):
            return NOT_JUDGED
        return WITHIN if self.distance <= 1 else DIFFERENT


def compare(
    published: Mapping[str, pd.DataFrame],
    now: Mapping[str, pd.DataFrame],
    models: Collection[Model] | None = None,
) -> list[Comparison]:
    """Every number of ``published`` tables against those of now; of ``models`` alone, if they were made alone.

    The star of a difference depends on how many models are compared: of models that were made alone it is not looked at.
    """
    comparisons: list[Comparison] = []
    for name, table in published.items():
        if models is not None and name not in now:
            continue
        keys = [*MODEL, "seed"] if name == SEEDS else MODEL
        made_again = {_key(row, keys): row for row in records(now[name])} if name in now else {}
        for row in records(table):
            model: Model = _key(row, MODEL)
            if models is not None and model not in models:
                continue
            again = made_again.get(_key(row, keys), {})
            for number in _numbers(name, table, starred=models is None):
                label = f"{number.column}, seed {row['seed']}" if name == SEEDS else number.column
                texts = number(row), number(again) if number.column in again else NOTHING
                if texts != (NOTHING, NOTHING):
                    distance = _distance(number, row, again)
                    comparisons.append(Comparison(model, name, label, *texts, distance))
    order = list(dict.fromkeys(one.model for one in comparisons))
    return sorted(comparisons, key=lambda one: order.index(one.model))


def verdict(comparisons: Collection[Comparison]) -> str:
    """That of all numbers together: ``identical`` if all are."""
    from scipy.special import ndtri
    from scipy.stats import binom

    judged = sum(math.isfinite(one.distance) for one in comparisons)
    outside = [one for one in comparisons if one.verdict == DIFFERENT]
    finite = [one for one in outside if math.isfinite(one.distance)]
    if len(finite) < len(outside) or len(finite) > binom.ppf(CONFIDENCE, judged, 1 - CONFIDENCE):
        return DIFFERENT
    for one in finite:
        alone, among = (ndtri(1 - (1 - CONFIDENCE) / 2 / numbers) for numbers in (1, judged))
        if one.distance > among / alone:
            return DIFFERENT
    return IDENTICAL if all(one.verdict == IDENTICAL for one in comparisons) else WITHIN


def format_comparisons(comparisons: Collection[Comparison]) -> str:
    """Numbers as plain text, those of a model together; at most 110 columns wide."""
    lines = []
    for model, group in itertools.groupby(comparisons, key=lambda one: one.model):
        rows = [(c.table, c.number, c.published, c.now, c.verdict) for c in group]
        lines.append(f"── {'/'.join(model)}")
        lines.append(pd.DataFrame(rows, columns=HEAD).to_string(index=False))
    return "\n".join(lines)


def sentence(comparisons: Collection[Comparison]) -> str:
    """The verdict, and how many numbers it rests on."""
    overall = verdict(comparisons)
    counts = Counter(one.verdict for one in comparisons)
    return " ".join(prose.fill_macro(TEMPLATE, "judged", overall=overall, counts=counts, words=VERDICTS))


def row_of(study: Study, model: Model) -> Study:
    """The grid of one row: its model, and the plain one that it is compared with."""
    alone, length = side_by_side(model[-1])
    plain = (*model[:-1], PLAIN + (f"+{length}d" if length else ""))
    models = [model] if alone in (*NOT_TRAINED, PLAIN) else [plain, model]
    return study.model_copy(update={"cells": plan.blocks_of(study, models)})


def _numbers(name: str, table: pd.DataFrame, starred: bool) -> list[Number]:
    """What of a table is compared: numbers that are printed, but for papers' and ours minus those; and counts."""
    printed = OF_SEEDS if name == SEEDS else tables.load(name).COLUMNS
    numbers = [c.text for c in printed if isinstance(c.text, Number) and c.text.column in table]
    of_ours = [
        replace(n, starred=n.starred and starred) for n in numbers if not n.column.startswith("difference_")
    ]
    return [Number(count, 0) for count in COUNTS if count in table] + of_ours


def _distance(number: Number, row: Mapping[str, Any], again: Mapping[str, Any]) -> float:
    """By how many half intervals of their difference two results differ; NaN without one, infinite if it cannot be chance."""
    if number.column not in again or number.column in COUNTS:
        return math.inf
    # The longer half of each interval, since it ends where a number can go no further.
    estimates = [read_estimate(one, number.column) for one in (row, again)]
    halves = [max(one.value - one.low, one.high - one.value) for one in estimates]
    if math.isnan(halves[0]):
        return math.nan
    half = math.hypot(*(half for half in halves if not math.isnan(half)))
    apart = abs(again[number.column] - row[number.column])
    return apart / half if half and not math.isnan(apart) else math.inf


def _key(row: Mapping[str, Any], keys: Collection[str]) -> Any:
    return tuple(row[key] for key in keys)
