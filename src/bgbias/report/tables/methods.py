"""Table 3: what each method changes against plain training of the same loss, and whether that is chance.

Levels, drops and cures are those of Table 1, attribution scores those of Table 2. Each of the four differences from plain has a
95 % interval and a p over queries (for the attribution score, over photos) and, from two training seeds on, over seeds, paired:
seeds mean the same start and, where both take as many photos of a class, the same batches for both. Folds share most of their
training photos and are no further seeds: their differences are averaged within each. p is corrected for the number of methods
compared with one plain model, each difference on its own. What training took stands in ``report/costs.py``: this table is the
same whenever it is made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from bgbias.engine.node import Made, files_of, step
from bgbias.photos.folds import seed_and_fold
from bgbias.report import columns as words
from bgbias.report import formats
from bgbias.report.columns import Column
from bgbias.report.tables import _captions as sentences
from bgbias.results import tests, uncertainty
from bgbias.results.rows import CORRUPTED, MODEL, Model, QueryValues, interval, named, resampling
from bgbias.seeds import generator
from bgbias.study import plan
from bgbias.study.cell import PLAIN, PRETRAINED, side_by_side
from bgbias.study.params import Study

NUMBER = 3
ABOUT = "Each method against plain training with the same loss: what it changes, and whether that is more than chance."
COLUMNS = (
    Column("Clean", words.number("clean", 2), "Clean", best="clean"),
    Column("vs plain, clean", words.against_plain("clean_difference", 1, sign=True, ends=True)),
    Column("Corrupted", words.number("corrupted", 2), "Corr.", best="corrupted"),
    Column("vs plain, corrupted", words.against_plain("corrupted_difference", 1, sign=True, ends=True)),
    Column("Drop, %", words.number("relative_drop", 1), "Drop, %"),
    Column("Cure, points", words.against_plain("cure", 1, ends=True), "Cure, points [95 %]"),
    Column("Cure, over seeds", words.interval_alone("cure_seeds", 1), known=("cure_seeds_low",)),
    Column("Score", words.number("ref", 3), "Score", best="ref"),
    Column("Gain", words.against_plain("ref_gain", 3, sign=True), "Gain"),
)
LEGEND = (
    "Each method against plain. Drop: relative. Cure: plain's drop minus this one, [95 %] over queries.",
    f"Score: of attribution. Marks: p < {tests.SIGNIFICANT:g}, {words.OVER_QUERIES} over queries or photos,"
    f" {words.OVER_SEEDS} over seeds; Holm-corrected.",
    "Differences on clean and corrupted photos: table3.md.",
)
# What it adds to the other tables.
HEADLINE = {"cure": "cure"}
settings = sentences.selection
DIFFERENCES = ("clean_difference", "corrupted_difference", "cure", "ref_gain")
FROM_TABLE_1 = [
    *("seeds", "draws", "queries", "clean", "corrupted"),
    *("relative_drop", "relative_drop_low", "relative_drop_high", "cure", "cure_low", "cure_high"),
    *("published_clean", "published_clean_sd", "published_clean_source", "published_clean_differs"),
]
FROM_TABLE_2 = ["ref", "ref_gain", "ref_gain_low", "ref_gain_high"]


def wanted(study: Study) -> bool:
    """Whether there are trained models to compare."""
    return bool(plan.trained(study))


def reads(study: Study) -> dict[str, Made]:
    """The paper's two tables, and the values that they were made of."""
    values = files_of(step("collect"), "all_queries", "all_attribution")
    printed = {t: Made(step("table", table=t), "table_csv") for t in ("table1", "table2")}
    return values | printed


def make(study: Study) -> pd.DataFrame:
    """The table of a study; see ``table``."""
    read = {role: file.path(study) for role, file in reads(study).items()}
    queries, attribution = (pd.read_parquet(read[name]) for name in ("all_queries", "all_attribution"))
    retrieval, scores = (formats.read(read[name]) for name in ("table1", "table2"))
    # Folds' models side by side have no training of their own, nor an attribution, to compare with plain's.
    retrieval = retrieval[[not side_by_side(method)[1] for method in retrieval["method"]]]
    return table(retrieval, scores, queries, attribution)


def caption(study: Study, table: pd.DataFrame) -> str:
    """The caption of a study's table; see ``told``."""
    return told(table, study.train.selection)


def table(
    retrieval: pd.DataFrame,
    attribution_scores: pd.DataFrame,
    queries: pd.DataFrame,
    attribution: pd.DataFrame,
) -> pd.DataFrame:
    """Table 3, a row a model in Table 1's order, from Tables 1 and 2 and the values they were made of.

    ``_low`` and ``_high`` are bootstrap intervals over queries (photos for ``ref``, the score, and its gain), of levels and of
    differences. For each of ``DIFFERENCES``, MAP@R in points, cures in points of the relative drop: ``_p`` and ``_p_holm``;
    ``_seeds``, the mean over seeds, with ``_seeds_low``, ``_seeds_high``, ``_seeds_p`` and ``_seeds_p_holm``. NaN in rows of
    plain and pretrained ones, and where there is but one seed. ``folds`` is there if Table 1 has it.
    """
    of_folds = [c for c in retrieval if c == "folds"]
    rows = retrieval[[*MODEL, *of_folds, *FROM_TABLE_1]].merge(
        attribution_scores[[*MODEL, *FROM_TABLE_2]], on=MODEL, how="left"
    )
    tested = pd.DataFrame(_tested(rows, queries, attribution))
    for compared in tested.groupby(MODEL[:-1], sort=False).groups.values():
        for p in (f"{name}{over}" for name in DIFFERENCES for over in ("_p", "_seeds_p")):
            tested.loc[compared, f"{p}_holm"] = tests.holm(tested.loc[compared, p].to_list())
    return rows.merge(tested, on=MODEL, how="left")


def told(table: pd.DataFrame, selection: str) -> str:
    """Two paragraphs."""
    averaged = "Rows are means over them; over seeds, the differences of one seed's folds are averaged and count once."
    return (
        "**Each method against plain training with the same loss.** MAP@R in percent, its relative drop and the cure as in"
        f" Table 1, the paper's attribution score as in Table 2.{sentences.selected(selection)}"
        f" {sentences.seeds(table)}.{sentences.folds(table, averaged)}\n\n"
        "vs plain, gain: the row minus plain, in points of MAP@R and in score. Cure: plain's relative drop minus that of the"
        f" row, in points; [low, high]: {sentences.bootstrap('queries')}; over seeds: Student's t. Marks: p <"
        f" {tests.SIGNIFICANT:g}, {words.OVER_QUERIES} over queries (gain: photos) by {tests.FLIPS:,} flips of signs, which"
        " speaks of these models as if queries were independent, though those of one class are not,"
        f" {words.OVER_SEEDS} over training seeds by a paired t test, which speaks of the methods; both Holm-corrected for the"
        " methods beside one plain model, each difference on its own. A method with batches of its own (DCML: four photos a"
        " class, whatever the loss) differs from plain by these too. All"
        f" intervals and p: table3.csv. What training took: `bgbias show`.{sentences.paper(table)}"
    )


def _tested(rows: pd.DataFrame, queries: pd.DataFrame, attribution: pd.DataFrame) -> Iterator[dict[str, Any]]:
    draws = queries.loc[queries["condition"] == CORRUPTED, "draw"].nunique()
    retrieved = queries.groupby(MODEL, sort=False, observed=True)
    attributed = attribution[attribution["variant"] == "ref"].groupby(MODEL, sort=False, observed=True)
    plain: dict[tuple[str, ...], tuple[_Runs, pd.DataFrame]] = {}
    for model in rows[MODEL].itertuples(index=False, name=None):
        row = named(model) | _unknown()
        own = _Runs(retrieved.get_group(model), model, draws)
        row |= _intervals({"clean": own.whole.clean, "corrupted": own.whole.corrupted}, 100, model)
        if model[-1] != PRETRAINED:
            scores = attributed.get_group(model).pivot(index="image_id", columns="seed", values="score")
            row |= _intervals({"ref": scores.mean(axis=1, skipna=False).to_numpy()}, 1, model)
            if model[-1] == PLAIN:
                plain[model[:-1]] = own, scores
            elif model[:-1] in plain:
                row |= _differences(own, plain[model[:-1]][0])
                row |= _gain(scores, plain[model[:-1]][1], model)
        yield row


class _Runs:
    """MAP@R of one model's queries, over all seeds and folds and of each of its trainings."""

    def __init__(self, rows: pd.DataFrame, model: Model, draws: int) -> None:
        self.whole = QueryValues.of(rows, model, draws)
        self.of_run = {run: QueryValues.of(part, model, draws) for run, part in rows.groupby("seed")}


def _differences(own: _Runs, plain: _Runs) -> dict[str, Any]:
    """The three differences in MAP@R; those of cures have their interval over queries from Table 1."""
    a, b, model = own.whole, plain.whole, own.whole.model
    pairs = {run: (x, plain.of_run[run]) for run, x in own.of_run.items() if run in plain.of_run}
    differences = {"clean_difference": a.clean - b.clean, "corrupted_difference": a.corrupted - b.corrupted}
    by_run = {
        "clean_difference": {run: np.nanmean(x.clean - y.clean) for run, (x, y) in pairs.items()},
        "corrupted_difference": {run: np.nanmean(x.corrupted - y.corrupted) for run, (x, y) in pairs.items()},
        "cure": {run: _relative_drop(y) - _relative_drop(x) for run, (x, y) in pairs.items()},
    }
    columns = _intervals(differences, 100, model)
    columns |= {name: 100 * np.nanmean(values) for name, values in differences.items()}
    shares = tests.shares_of_relative_drop(b.clean, b.corrupted)
    shares = shares - tests.shares_of_relative_drop(a.clean, a.corrupted)
    for name, values in (differences | {"cure": shares}).items():
        columns |= _tests(name, values, by_run[name], 100, model)
    return columns


def _gain(scores: pd.DataFrame, plain: pd.DataFrame, model: Model) -> dict[str, Any]:
    """The difference in attribution score, of photos [N] x seeds and folds, on the photos that both models could be scored on."""
    by_photo = scores.mean(axis=1, skipna=False) - plain.mean(axis=1, skipna=False)
    by_run = (scores - plain).dropna(axis=1, how="all").loc[by_photo.notna()].mean()
    return _tests("ref_gain", by_photo.to_numpy(), by_run.to_dict(), 1, model)


def _tests(
    column: str, by_query: np.ndarray, by_run: Mapping[Any, float], scale: float, model: Model
) -> dict[str, Any]:
    p = tests.sign_flip(by_query, generator("sign flip", *model[:2]))
    # One difference a seed: the mean of those of its folds.
    of_seed: dict[int, list[float]] = {}
    for run, difference in by_run.items():
        of_seed.setdefault(seed_and_fold(run)[0], []).append(difference)
    estimate, p_seeds = tests.over_seeds(np.array([np.mean(of_folds) for of_folds in of_seed.values()]))
    return {f"{column}_p": p, **interval(f"{column}_seeds", estimate, scale), f"{column}_seeds_p": p_seeds}


def _intervals(values: dict[str, np.ndarray], scale: float, model: Model) -> dict[str, float]:
    """The ends of the intervals over queries of several means."""
    estimates = uncertainty.bootstrap_means(list(values.values()), resampling(model))
    return {
        f"{name}_{end}": scale * getattr(estimate, end)
        for name, estimate in zip(values, estimates, strict=True)
        for end in ("low", "high")
    }


def _relative_drop(values: QueryValues) -> float:
    return uncertainty.drop(np.nanmean(values.clean), np.nanmean(values.corrupted)).relative


def _unknown() -> dict[str, float]:
    """What rows have about which there is nothing to ask."""
    levels = {f"{d}_difference{end}": np.nan for d in ("clean", "corrupted") for end in ("", "_low", "_high")}
    ends = ("_p", "_seeds", "_seeds_low", "_seeds_high", "_seeds_p")
    return levels | {f"{name}{end}": np.nan for name in DIFFERENCES for end in ends}
