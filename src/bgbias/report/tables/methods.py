"""Table 3 as numbers: what each method changes against plain training of the same loss, whether that is chance, what it costs.

Levels, drops and cures are those of Table 1, attribution scores those of Table 2. Each of the four differences from plain has a
95 % interval and a p over queries (for the attribution score, over photos) and, from two training seeds on, over seeds, paired:
seeds mean the same start and, where both take as many photos of a class, the same batches for both. Folds share most of their
training photos and are no further seeds: their differences are averaged within each. p is corrected for the number of methods
compared with one plain model, each difference on its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from bgbias.photos.folds import seed_and_fold
from bgbias.report.names import PLAIN, PRETRAINED
from bgbias.results import tests, uncertainty
from bgbias.results.model_rows import MODEL, Model, named
from bgbias.results.rows import CORRUPTED, QueryValues, resampling
from bgbias.results.tests import shares_of_relative_drop
from bgbias.seeds import generator

DIFFERENCES = ("clean_difference", "corrupted_difference", "cure", "ref_gain")
FROM_TABLE_1 = [
    *("seeds", "draws", "queries", "clean", "corrupted"),
    *("relative_drop", "relative_drop_low", "relative_drop_high", "cure", "cure_low", "cure_high"),
    *("published_clean", "published_clean_sd", "published_clean_source", "published_clean_differs"),
]
FROM_TABLE_2 = ["ref", "ref_gain", "ref_gain_low", "ref_gain_high"]


def table3(
    table1: pd.DataFrame,
    table2: pd.DataFrame,
    queries: pd.DataFrame,
    attribution: pd.DataFrame,
    costs: pd.DataFrame,
) -> pd.DataFrame:
    """Table 3, a row a model in Table 1's order, from the two other tables, the values they were made of, and ``costs.by_model``.

    ``_low`` and ``_high`` are bootstrap intervals over queries (photos for ``ref``, the score, and its gain), of levels and of
    differences. For each of ``DIFFERENCES``, MAP@R in points, cures in points of the relative drop: ``_p`` and ``_p_holm``;
    ``_seeds``, the mean over seeds, with ``_seeds_low``, ``_seeds_high``, ``_seeds_p`` and ``_seeds_p_holm``. NaN in rows of
    plain and pretrained ones, and where there is but one seed. ``folds`` is there if Table 1 has it.
    """
    of_folds = [c for c in table1 if c == "folds"]
    rows = table1[[*MODEL, *of_folds, *FROM_TABLE_1]].merge(
        table2[[*MODEL, *FROM_TABLE_2]], on=MODEL, how="left"
    )
    tested = pd.DataFrame(_tested(rows, queries, attribution))
    for compared in tested.groupby(MODEL[:-1], sort=False).groups.values():
        for p in (f"{name}{over}" for name in DIFFERENCES for over in ("_p", "_seeds_p")):
            tested.loc[compared, f"{p}_holm"] = tests.holm(tested.loc[compared, p].to_list())
    made = rows.merge(tested, on=MODEL, how="left").merge(costs, on=MODEL, how="left")
    plain = made[made["method"] == PLAIN].set_index(MODEL[:-1])["cost_seconds_a_step"]
    of_plain = plain.reindex(pd.MultiIndex.from_frame(made[MODEL[:-1]])).to_numpy()
    made["cost_times_plain"] = made["cost_seconds_a_step"] / of_plain
    return made


def _tested(rows: pd.DataFrame, queries: pd.DataFrame, attribution: pd.DataFrame) -> Iterator[dict[str, Any]]:
    draws = queries.loc[queries["condition"] == CORRUPTED, "draw"].nunique()
    retrieved = queries.groupby(MODEL, sort=False, observed=True)
    attributed = attribution[attribution["variant"] == "ref"].groupby(MODEL, sort=False, observed=True)
    plain: dict[tuple[str, ...], tuple[_Retrieval, pd.DataFrame]] = {}
    for model in rows[MODEL].itertuples(index=False, name=None):
        row = named(model) | _unknown()
        found = _Retrieval(retrieved.get_group(model), model, draws)
        row |= _intervals({"clean": found.whole.clean, "corrupted": found.whole.corrupted}, 100, model)
        if model[-1] != PRETRAINED:
            scores = attributed.get_group(model).pivot(index="image_id", columns="seed", values="score")
            row |= _intervals({"ref": scores.mean(axis=1, skipna=False).to_numpy()}, 1, model)
            if model[-1] == PLAIN:
                plain[model[:-1]] = found, scores
            elif model[:-1] in plain:
                row |= _retrieval(found, plain[model[:-1]][0])
                row |= _gain(scores, plain[model[:-1]][1], model)
        yield row


class _Retrieval:
    """MAP@R of one model's queries, over all seeds and folds and of each of its trainings."""

    def __init__(self, rows: pd.DataFrame, model: Model, draws: int) -> None:
        self.whole = QueryValues.of(rows, model, draws)
        self.of_run = {run: QueryValues.of(part, model, draws) for run, part in rows.groupby("seed")}


def _retrieval(found: _Retrieval, plain: _Retrieval) -> dict[str, Any]:
    """The three differences in MAP@R; those of cures have their interval over queries from Table 1."""
    a, b, model = found.whole, plain.whole, found.whole.model
    pairs = {run: (own, plain.of_run[run]) for run, own in found.of_run.items() if run in plain.of_run}
    differences = {"clean_difference": a.clean - b.clean, "corrupted_difference": a.corrupted - b.corrupted}
    by_run = {
        "clean_difference": {run: np.nanmean(x.clean - y.clean) for run, (x, y) in pairs.items()},
        "corrupted_difference": {run: np.nanmean(x.corrupted - y.corrupted) for run, (x, y) in pairs.items()},
        "cure": {run: _relative_drop(y) - _relative_drop(x) for run, (x, y) in pairs.items()},
    }
    made = _intervals(differences, 100, model)
    made |= {name: 100 * np.nanmean(values) for name, values in differences.items()}
    shares = shares_of_relative_drop(b.clean, b.corrupted) - shares_of_relative_drop(a.clean, a.corrupted)
    for name, values in (differences | {"cure": shares}).items():
        made |= _tests(name, values, by_run[name], 100, model)
    return made


def _gain(scores: pd.DataFrame, plain: pd.DataFrame, model: Model) -> dict[str, Any]:
    """The difference in attribution score, of photos [N] x seeds and folds, on the photos that both models could be scored on."""
    by_photo = scores.mean(axis=1, skipna=False) - plain.mean(axis=1, skipna=False)
    by_run = (scores - plain).dropna(axis=1, how="all").loc[by_photo.notna()].mean()
    return _tests("ref_gain", by_photo.to_numpy(), by_run.to_dict(), 1, model)


def _tests(
    column: str, by_query: np.ndarray, by_run: Mapping[Any, float], scale: float, model: Model
) -> dict[str, Any]:
    p = tests.sign_flip(by_query, generator("sign flip", *model[:2]))
    estimate, p_seeds = tests.over_seeds(_by_seed(by_run))
    return {
        f"{column}_p": p,
        f"{column}_seeds": scale * estimate.value,
        f"{column}_seeds_low": scale * estimate.low,
        f"{column}_seeds_high": scale * estimate.high,
        f"{column}_seeds_p": p_seeds,
    }


def _by_seed(by_run: Mapping[Any, float]) -> np.ndarray:
    """Differences [S], one a seed: the mean of those of its folds."""
    of_seed: dict[int, list[float]] = {}
    for run, difference in by_run.items():
        of_seed.setdefault(seed_and_fold(run)[0], []).append(difference)
    return np.array([np.mean(of_folds) for of_folds in of_seed.values()])


def _intervals(values: dict[str, np.ndarray], scale: float, model: Model) -> dict[str, float]:
    """The ends of the intervals over queries of several means."""
    estimates = uncertainty.bootstrap_means(list(values.values()), resampling(*model[:2]))
    return {
        f"{name}_{end}": scale * getattr(estimate, end)
        for name, estimate in zip(values, estimates, strict=True)
        for end in ("low", "high")
    }


def _relative_drop(values: QueryValues) -> float:
    return uncertainty.drop(np.nanmean(values.clean), np.nanmean(values.corrupted)).relative


def _unknown() -> dict[str, float]:
    """What rows have about which there is nothing to ask."""
    found = {f"{d}_difference{end}": np.nan for d in ("clean", "corrupted") for end in ("", "_low", "_high")}
    ends = ("_p", "_seeds", "_seeds_low", "_seeds_high", "_seeds_p")
    return found | {f"{name}{end}": np.nan for name in DIFFERENCES for end in ends}
