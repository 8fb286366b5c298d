"""Table 3: what each method changes against plain training of the same loss, and whether that is chance.

Levels, drops and their changes are those of Table 1, attribution scores and gains those of Table 2; this table adds the
differences on corrupted and on clean photos, and corrects every p for the number of methods compared with one plain model, each
difference on its own. Methods are paired with plain by query and by seed: seeds mean the same start and, where both take as many
photos of a class, the same batches for both. What training took stands in ``report/costs.py``: this table is the same whenever it
is made. What a method does on replaced backgrounds (``x+bgaugment``) is compared with ``bgaugment`` alone, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from bgbias.report import names, sources
from bgbias.report.columns import MARK, Column, against_plain, number
from bgbias.report.costs import passes
from bgbias.report.tables import _captions as sentences
from bgbias.results import uncertainty
from bgbias.results.rows import (
    CORRUPTED,
    MODEL,
    Model,
    Values,
    corrected,
    named,
    retrieved,
    tested,
)
from bgbias.results.uncertainty import SIGNIFICANT
from bgbias.study import plan
from bgbias.study.cell import PLAIN, side_by_side
from bgbias.study.methods import ON_REPLACED
from bgbias.study.params import Study

NUMBER = 3
LEVELS = ("corrupted", "clean")
OVER = "_over_bgaugment"
ABOUT = "Each method against plain training with the same loss: what it changes, and whether that is more than chance."
COLUMNS = (
    Column("Corrupted", number("corrupted", 2), "Corr.", best="corrupted"),
    Column("vs plain, corrupted", against_plain("corrupted_difference", 1), "vs plain [95 %]"),
    Column("Clean", number("clean", 2), "Clean", best="clean"),
    Column("vs plain, clean", against_plain("clean_difference", 1), "vs plain [95 %]"),
    Column("Drop, %", number("relative_drop", 1), "Drop, %"),
    Column("Change of drop, points", against_plain("relative_drop_change", 1)),
    Column("Score", number("ref", 3), "Score", best="ref"),
    Column("Gain", against_plain("ref_gain", 3)),
    Column("Cost, times plain's", number("cost", 1), known=("cost",)),
    *(
        Column(f"vs BGAugment, {name}", against_plain(f"{name}{OVER}", 1), known=(f"{name}{OVER}",))
        for name in LEVELS
    ),
)
LEGEND = (
    "Each method against plain. Drop: relative. Score: of attribution. [95 %]: over classes and, from three",
    f"on, training seeds. {MARK}: p < {SIGNIFICANT:g}, Holm-corrected. Changes of drop and score: table3.md.",
)
# What it adds to the other tables.
HEADLINE = {"corrupted_difference": "corrupted, minus plain", "clean_difference": "clean, minus plain"}
wanted = plan.trained
DIFFERENCES = ("corrupted_difference", "clean_difference", "relative_drop_change", "ref_gain")
FROM_TABLE_1 = [
    *("seeds", "draws", "queries", "classes"),
    *(f"{name}{end}" for name in ("corrupted", "clean") for end in ("", "_low", "_high", "_leads")),
    *("relative_drop", "relative_drop_low", "relative_drop_high"),
    *(f"relative_drop_change{end}" for end in ("", "_low", "_high", "_p")),
    *("published_clean", "published_clean_sd", "published_clean_source", "published_clean_differs"),
]
FROM_TABLE_2 = [f"ref{end}" for end in ("", "_low", "_high", "_leads")]
FROM_TABLE_2 += [f"ref_gain{end}" for end in ("", "_low", "_high", "_p")]


def settings(study: Study) -> dict[str, Any]:
    """The rule of selection, and what training by each method takes."""
    return sentences.selection(study) | {"costs": passes(study)}


def reads(study: Study) -> sources.Sources:
    return sources.collected("all_queries") | sources.printed(1, 2)


def make(study: Study) -> pd.DataFrame:
    retrieval, scores = (sources.table(study, number) for number in (1, 2))
    # Folds' models side by side have no training of their own to compare with plain's.
    retrieval = retrieval[[not side_by_side(method)[1] for method in retrieval["method"]]]
    return table(retrieval, scores, sources.queries(study), passes(study))


def table(
    retrieval: pd.DataFrame,
    attribution_scores: pd.DataFrame,
    queries: pd.DataFrame,
    costs: Mapping[str, float] | None = None,
) -> pd.DataFrame:
    """Table 3, a row a model in Table 1's order, from Tables 1 and 2 and the queries that the first was made of.

    For each of ``DIFFERENCES`` from plain, MAP@R and relative drops in points: its interval ``_low`` and ``_high``, ``_p``
    (``uncertainty.estimate``) and ``_p_holm``. NaN in rows of plain and untrained models. ``folds`` is there if Table 1 has it,
    ``cost`` (``costs.passes``) if it is told, and if methods work on replaced backgrounds beside BGAugment alone, differences
    from that, too: ``corrupted_over_bgaugment`` and ``clean_over_bgaugment``.
    """
    of_folds = [c for c in retrieval if c == "folds"]
    rows = retrieval[[*MODEL, *of_folds, *FROM_TABLE_1]].merge(
        attribution_scores[[*MODEL, *FROM_TABLE_2]], on=MODEL, how="left"
    )
    rows["ref_leads"] = rows["ref_leads"].eq(True)  # models that are not asked where they look
    rows = rows.merge(pd.DataFrame(_differences(rows, queries)), on=MODEL, how="left")
    if costs:
        rows["cost"] = rows[MODEL].agg("/".join, axis=1).map(costs)
    over = [f"{name}{OVER}" for name in LEVELS if f"{name}{OVER}" in rows]
    return corrected(rows, [*DIFFERENCES, *over], MODEL[:-1])


def caption(study: Study, table: pd.DataFrame, excluded: Mapping[str, int]) -> str:
    return sentences.caption("methods.j2", study, table, excluded, COLUMNS)


def _differences(rows: pd.DataFrame, queries: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """A row a model: by how much its MAP@R is above that of plain."""
    draws = queries.loc[queries["condition"] == CORRUPTED, "draw"].nunique()
    of_models = queries.groupby(MODEL, sort=False, observed=True)
    alone: dict[Model, Values] = {}
    for model in rows[MODEL].itertuples(index=False, name=None):
        own = retrieved(of_models.get_group(model), model, draws)
        if model[-1] in (PLAIN, names.BGAUGMENT):
            alone[model] = own
        row = named(model)
        plain = alone.get((*model[:3], PLAIN)) if model[-1] != PLAIN else None
        for name in LEVELS:
            found = own.against(plain, [name]) if plain else uncertainty.UNKNOWN
            row |= tested(f"{name}_difference", found, 100)
        replaced = alone.get((*model[:3], names.BGAUGMENT)) if model[-1].endswith(ON_REPLACED) else None
        if replaced:
            for name in LEVELS:
                row |= tested(f"{name}{OVER}", own.against(replaced, [name]), 100)
        yield row
