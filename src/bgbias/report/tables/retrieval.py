"""Retrieval on other backgrounds, and of the photos' own: MAP@R, what of it is lost, and
how a method changes that.

The paper's Table 1 (Kobs & Hotho 2022). Percentages are 0..100. The spread over training seeds and
the spread over background draws are two columns.
"""

from typing import Any

import numpy as np
import pandas as pd

from bgbias.report import sources
from bgbias.report.columns import Column, interval, number, published_number
from bgbias.results import published, rows, uncertainty
from bgbias.study.params import Study

NUMBER = 1
CAPTION = "retrieval.j2"
COMPARED = ("published_clean", "published_corrupted")
COLUMNS = (
    Column("Corrupted", interval("corrupted", 1), "Corrupted [95 %]", gain="corrupted_difference"),
    Column("± draws", number("corrupted_sd_draws", 2)),
    Column("± seeds", number("corrupted_sd_seeds", 2)),
    Column("Clean", interval("clean", 1), "Clean [95 %]", gain="clean_difference"),
    Column("± seeds", number("clean_sd_seeds", 2)),
    Column("Drop, points", interval("drop", 1)),
    Column("Drop, %", interval("relative_drop", 1), "Drop, % [95 %]"),
    Column("Change of drop, points", interval("relative_drop_change", 1), "Change of drop"),
    Column("Query only", number("query_only", 2)),
    Column("Query-only drop, %", interval("query_only_relative_drop", 1)),
    Column("P@1, clean", number("p_at_1_clean", 1)),
    Column("P@1, corrupted", number("p_at_1_corrupted", 1)),
    Column("Paper, clean", published_number("clean", 2), known=COMPARED),
    Column("Δ, clean", number("difference_clean", 2, sign=True), known=COMPARED),
    Column("Paper, corrupted", published_number("corrupted", 2), known=COMPARED),
    Column("Δ, corrupted", number("difference_corrupted", 2, sign=True), known=COMPARED),
    Column("Paper, P@1", published_number("p_at_1_clean", 1), known=("published_p_at_1_clean",)),
)
DIFFERENCES = ("relative_drop_change", "corrupted_difference", "clean_difference")  # from plain
HEADLINE = {"clean": "MAP@R clean", "corrupted": "MAP@R corrupted", "relative_drop": "relative drop"}
settings = published.settings
reads = sources.make_reads("results", "all_queries", "mask_report")


def make(study: Study) -> pd.DataFrame:
    results = rows.read_csv(study.files.at("results"))
    return table(results, sources.queries(study), published.read())


def table(results: pd.DataFrame, queries: pd.DataFrame, papers: pd.DataFrame | None = None) -> pd.DataFrame:
    """Table 1 from the tidy ``results`` and the per-query values: retrieval on clean and corrupted photos.

    ``clean`` and ``corrupted`` MAP@R in percent, the latter with query and gallery corrupted, with their sample sd over
    seeds and ``draws`` (NaN for a single one); ``drop`` in points and ``relative_drop`` in percent;
    ``relative_drop_change``, the method's relative drop minus plain's, ``corrupted_difference`` and ``clean_difference``,
    its MAP@R minus plain's, all in points (NaN without a plain row, and over the seeds that both have); ``query_only``,
    MAP@R of corrupted queries against the clean gallery, and its relative drop. Then P@1; ``published_*`` where a paper has
    the cell, with ``_source``, ``_differs`` (what was done in another way there) and, if nothing was, our ``difference_*``
    to it. ``papers`` is ``published.read()``.
    """
    by_model = queries.groupby(rows.MODEL, sort=False, observed=True)
    compared: dict[rows.Model, rows.Values] = {}
    lines: list[dict[str, Any]] = []
    for model, part in sources.models(results):
        values = rows.retrieval_values(by_model.get_group(model), model)
        compared[model] = values
        row = rows.name_columns(model) | _average(part, model) | {"classes": len(set(values.classes))}
        # Levels stay what results.csv says.
        row = _estimates(values, rows.plain_of(compared, model)) | row
        for name, condition in (("clean", rows.CLEAN), ("corrupted", rows.CORRUPTED)):
            row |= published.paper_columns(name, row, papers, model, rows.MAP_AT_R, condition)
        row |= published.paper_columns("p_at_1_clean", row, papers, model, rows.PRECISION_AT_1, rows.CLEAN)
        lines.append(row)
    return rows.tabulate_models(lines)


def _average(results: pd.DataFrame, model: rows.Model) -> dict[str, Any]:
    """Means over queries of one model, in percent, and the two spreads."""
    wide = results.pivot(index="seed", columns=["metric", "setting", "condition", "draw"], values="value")
    wide = wide.sort_index(axis=1)

    def percent(metric: str, condition: str, setting: str = rows.SYMMETRIC) -> np.ndarray:
        return 100 * wide[metric, setting, condition].to_numpy()

    clean, corrupted = percent(rows.MAP_AT_R, rows.CLEAN), percent(rows.MAP_AT_R, rows.CORRUPTED)
    counted = results.loc[(results["metric"] == rows.MAP_AT_R) & (results["setting"] == rows.SYMMETRIC), "n"]
    return rows.repetitions(results, model) | {
        "draws": corrupted.shape[1],
        "queries": int(counted.iloc[0]),
        "clean": uncertainty.mean(clean),
        "clean_sd_seeds": uncertainty.sd_over_seeds(clean),
        "corrupted": uncertainty.mean(corrupted),
        "corrupted_sd_draws": uncertainty.sd_over_draws(corrupted),
        "corrupted_sd_seeds": uncertainty.sd_over_seeds(corrupted),
        "query_only": uncertainty.mean(percent(rows.MAP_AT_R, rows.CORRUPTED, rows.QUERY_ONLY)),
        "p_at_1_clean": uncertainty.mean(percent(rows.PRECISION_AT_1, rows.CLEAN)),
        "p_at_1_corrupted": uncertainty.mean(percent(rows.PRECISION_AT_1, rows.CORRUPTED)),
    }


def _estimates(values: rows.Values, plain: rows.Values | None) -> dict[str, Any]:
    """Levels and drops with their intervals, and the change of the drop if there is a plain model to compare with."""
    row: dict[str, Any] = rows.shares(values, ["clean", "corrupted", "query_only"])
    drops = {
        "drop": ("corrupted", uncertainty.difference),
        "relative_drop": ("corrupted", uncertainty.relative_drop),
        "query_only_relative_drop": ("query_only", uncertainty.relative_drop),
    }
    for name, (level, stat) in drops.items():
        row |= rows.interval(name, values.estimate(["clean", level], stat), 100)
    change = values.against(plain, ["clean", "corrupted"], uncertainty.change_of_relative_drop)
    row |= rows.tested("relative_drop_change", change, 100)
    for level in ("corrupted", "clean"):
        row |= rows.tested(f"{level}_difference", values.against(plain, [level]), 100)
    return row
