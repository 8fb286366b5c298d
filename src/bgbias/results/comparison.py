"""Several models on the same queries: what each finds and loses, and whether any two differ significantly.

All of it is made of values a query, as ``queries.parquet`` of a study or of an audit holds them, so that differences are paired.
"""

import itertools
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from bgbias import seeds
from bgbias.errors import UserError
from bgbias.evaluation.metrics import MATCHED
from bgbias.results import decomposition, rows, uncertainty
from bgbias.results.decomposition import PATH
from bgbias.results.rows import CLEAN, CORRUPTED, QUERY_ONLY, SYMMETRIC, Values
from bgbias.results.uncertainty import Estimate

# MAP@R of original photos, and of queries on other backgrounds in an original gallery.
VIEWS = {"clean": (SYMMETRIC, CLEAN), "changed": (QUERY_ONLY, CORRUPTED)}
LEVELS = tuple(VIEWS)
NO_DIFFERENCE = uncertainty.UNKNOWN  # of the best model from itself
FEWEST_RANKED = 3  # models: two have one order or the other
SPLITS = 200  # of the classes into halves
TRUSTED_TAU = 0.5  # below it fewer than three pairs of four keep their order


@dataclass(frozen=True)
class Choice:
    """Which model to take for queries on other backgrounds.

    ``best`` has the highest MAP@R there; ``as_good`` are those of which nobody can say that they are
    worse; ``worse`` those that are significantly. ``unbeaten``: references that are not worse.
    ``is_tested``: whether there are intervals at all.
    """

    best: str
    as_good: tuple[str, ...]
    worse: tuple[str, ...]
    unbeaten: tuple[str, ...]
    is_tested: bool


@dataclass(frozen=True)
class Stability:
    """Whether the order of the drops holds: Kendall's tau, -1..1, of two random halves of the classes,
    its mean and 95 % range over splits, and of two halves of the backgrounds, with its 95 % interval over
    classes; NaN where there is one background.
    """

    of_classes: Estimate
    of_draws: Estimate

    @property
    def is_trusted(self) -> bool:
        """Whether neither is low."""
        return not (self.of_classes.value < TRUSTED_TAU or self.of_draws.value < TRUSTED_TAU)


@dataclass(frozen=True)
class ModelComparison:
    """``models``: a row a model, the highest MAP@R on other backgrounds first: ``clean``, ``changed``
    and the ``drop`` between them, 0..1, the steps of the drop in points of MAP@R 0..1, each with
    ``_low`` and ``_high``, and ``is_on_front``. ``pairs``: a row for every two models, the first minus
    the second: ``changed`` and ``drop``, with ``_low``, ``_high``, ``_p`` and ``_p_holm``. ``queries``:
    a row a query by image id, under each model's name its ``clean`` and ``changed`` MAP@R (two levels
    of columns).
    """

    models: pd.DataFrame
    pairs: pd.DataFrame
    queries: pd.DataFrame
    choice: Choice
    stability: Stability | None


def compare(of_models: Mapping[str, pd.DataFrame], references: Collection[str] = ()) -> ModelComparison:
    """Models by name, each with its rows of ``scores.score_queries`` and a ``seed``, all of one collection
    of photos and the same draws; of queries that one model lacks none has a value.

    ``references`` are no candidates: they are neither chosen nor on the front. A UserError without a
    candidate.
    """
    candidates = [name for name in of_models if name not in references]
    if not candidates:
        raise UserError(
            "There is no model to choose from, only references; audit a model on the same photos, too."
        )
    shared = set.intersection(*(set(frame["image_id"]) for frame in of_models.values()))
    frames = {name: frame[frame["image_id"].isin(shared)] for name, frame in of_models.items()}
    values = {
        name: rows.values_for_views(frame, ("photos", name, "none", "pretrained"), VIEWS)
        for name, frame in frames.items()
    }
    lines = [_make_row(name, values[name], frames[name]) for name in of_models]
    models = pd.DataFrame(lines).sort_values(["changed", "model"], ascending=[False, True], ignore_index=True)
    models = models.assign(is_reference=models["model"].isin(list(references)))
    models["is_on_front"] = _find_front(models)
    pairs = _compare_pairs([values[name] for name in models["model"]], list(models["model"]))
    levels = {
        name: pd.DataFrame({level: one.columns[level][0] for level in LEVELS}, index=one.queries)
        for name, one in values.items()
    }
    queries = pd.concat(levels, axis=1)
    is_ranked = len(candidates) >= FEWEST_RANKED
    return ModelComparison(
        models,
        pairs,
        queries,
        _choose(models, pairs),
        _measure_stability([frames[name] for name in candidates]) if is_ranked else None,
    )


def _make_row(name: str, values: Values, frame: pd.DataFrame) -> dict[str, Any]:
    line: dict[str, Any] = {"model": name, "queries": len(values.queries)}
    for level in LEVELS:
        line |= rows.interval(level, values.estimate([level]), 1)
    drop = uncertainty.at_most_all(values.estimate(LEVELS, uncertainty.relative_drop))
    line |= rows.tested("drop", drop, 1)
    if set(PATH) <= set(frame["condition"]) and MATCHED[QUERY_ONLY] in frame:
        matched = decomposition.matched_values(frame, values.model, QUERY_ONLY, PATH)
        steps = decomposition.steps(matched)
        for step in decomposition.STEPS:
            line |= rows.interval(step, steps[step], 1)
    return line


def _find_front(models: pd.DataFrame) -> list[bool]:
    """Whether no other candidate finds at least as much in both levels, and more in one."""
    levels = models[list(LEVELS)].to_numpy(float)
    candidates = levels[~models["is_reference"]]
    return [
        not is_reference and not ((candidates >= level).all(axis=1) & (candidates > level).any(axis=1)).any()
        for level, is_reference in zip(levels, models["is_reference"], strict=True)
    ]


def _compare_pairs(values: Sequence[Values], names: Sequence[str]) -> pd.DataFrame:
    lines = []
    for (name, one), (other_name, other) in itertools.combinations(zip(names, values, strict=True), 2):
        changed = one.against(other, ["changed"])
        drop = one.against(other, LEVELS, uncertainty.change_of_relative_drop)
        pair: dict[str, Any] = {"model": name, "other": other_name}
        lines.append(pair | rows.tested("changed", changed, 1) | rows.tested("drop", drop, 1))
    table = pd.DataFrame(lines)
    return rows.correct_p_values(table, ["changed", "drop"], within=()) if lines else table


def _choose(models: pd.DataFrame, pairs: pd.DataFrame) -> Choice:
    """Every two models are tested, and corrected for, since which one is best was seen first."""
    best, *others = models.loc[~models["is_reference"], "model"]
    references = models.loc[models["is_reference"], "model"]
    against = differences(pairs, best)
    worse = {name for name, difference in against.items() if difference.is_below}
    return Choice(
        best,
        tuple(name for name in others if name not in worse),
        tuple(name for name in others if name in worse),
        tuple(name for name in references if name not in worse),
        any(not math.isnan(difference.p) for difference in against.values()),
    )


def differences(pairs: pd.DataFrame, best: str) -> dict[str, Estimate]:
    """What each other model has more than ``best`` on other backgrounds, MAP@R 0..1, from ``ModelComparison.pairs``, with
    its interval, and the p that is corrected for all pairs.
    """
    against = {}
    for row in rows.records(pairs):
        more = rows.read_estimate(row, "changed")
        if row["other"] == best:
            against[row["model"]] = more
        elif row["model"] == best:
            against[row["other"]] = Estimate(-more.value, -more.high, -more.low, more.p)
    return against


def _measure_stability(frames: Sequence[pd.DataFrame]) -> Stability:
    from scipy.stats import kendalltau

    sums = np.stack([_sum_classes(frame) for frame in frames])  # [models, levels, draws or 1, classes]

    def tau(one: np.ndarray, other: np.ndarray) -> float:
        drops = [1 - half[:, 1].sum(-1) / half[:, 0].sum(-1) for half in (one, other)]
        return float(kendalltau(*drops).statistic)

    over_draws, classes = sums.mean(axis=2), sums.shape[-1]
    generator = seeds.generator("rank stability")
    taus = []
    for _ in range(SPLITS if classes >= uncertainty.FEWEST_CLASSES else 0):
        order = generator.permutation(classes)
        taus.append(tau(over_draws[..., order[: classes // 2]], over_draws[..., order[classes // 2 :]]))
    finite = np.array(taus)[np.isfinite(taus)]
    ends = np.quantile(finite, [0.025, 0.975]) if len(finite) else (np.nan, np.nan)
    of_classes = Estimate(float(finite.mean()) if len(finite) else np.nan, *map(float, ends))
    if not (half := sums.shape[2] // 2):
        return Stability(of_classes, uncertainty.UNKNOWN)
    one, other = sums[:, :, :half].mean(2), sums[:, :, half:].mean(2)
    return Stability(
        of_classes, over_classes(lambda chosen: tau(one[..., chosen], other[..., chosen]), classes)
    )


def over_classes(tau: Callable[..., float], *classes: int) -> Estimate:
    """Kendall's tau with its 95 % interval over classes: ``tau`` of the numbers of those that are taken, of each of so many
    ``classes`` that are independent.

    By the delete-half jackknife with Student's t: tau is a step function of classes, for which deleting one of them is
    inconsistent, and half of them is not (Shao & Wu 1989). It is of what so many classes give: of few, noise lowers tau itself.
    """
    from scipy.stats import t as student

    value = tau(*map(np.arange, classes))
    if min(classes) < uncertainty.FEWEST_CLASSES:
        return Estimate(value)
    generator = seeds.generator("halves of classes")
    halves = [tau(*(generator.permutation(count)[: count // 2] for count in classes)) for _ in range(SPLITS)]
    reach = float(student.ppf(0.975, min(classes) - 1)) * float(np.nanstd(halves))
    return Estimate(value, max(value - reach, -1.0), min(value + reach, 1.0))


def _sum_classes(frame: pd.DataFrame) -> np.ndarray:
    """MAP@R, clean and changed, summed over each class's queries, draw by draw, float64 [2, D, C]."""
    clean = (frame["setting"] == SYMMETRIC) & (frame["condition"] == CLEAN)
    changed = (frame["setting"] == QUERY_ONLY) & (frame["condition"] == CORRUPTED)
    by = [
        frame[where].pivot_table(rows.MAP_AT_R, "label", "draw", "sum").to_numpy(float).T
        for where in (clean, changed)
    ]
    return np.stack(np.broadcast_arrays(*by))
