"""Each method against plain training with the same loss: what it changes, and whether that is more
than chance.

Levels and drops, and what a method changes of them, are those of Table 1, attribution scores and
gains those of Table 2. Methods are paired with plain by query and by seed: seeds mean the same
start and, where both take as many photos of a class, the same batches for both. What training took
stands in ``report/costs.py``: this table is the same whenever it is made. What a method does on
replaced backgrounds (``x+bgaugment``) is compared with ``bgaugment`` alone, too.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from bgbias.report import names, sources
from bgbias.report.columns import Column, against_plain, number
from bgbias.report.costs import passes
from bgbias.report.tables.retrieval import DIFFERENCES
from bgbias.results.rows import MODEL, Model, correct_p_values, name_columns, retrieval_values, tested
from bgbias.study import plan
from bgbias.study.cell import side_by_side
from bgbias.study.methods import ON_REPLACED
from bgbias.study.params import Study

NUMBER = 3
CAPTION = "methods.j2"
LEVELS = ("corrupted", "clean")
OVER = "_over_bgaugment"
COLUMNS = (
    Column("Corrupted", number("corrupted", 2), "Corr.", gain="corrupted_difference"),
    Column("vs plain, corrupted", against_plain("corrupted_difference", 1), "vs plain [95 %]"),
    Column("Clean", number("clean", 2), "Clean", gain="clean_difference"),
    Column("vs plain, clean", against_plain("clean_difference", 1), "vs plain [95 %]"),
    Column("Drop, %", number("relative_drop", 1), "Drop, %"),
    Column("Change of drop, points", against_plain("relative_drop_change", 1)),
    Column("Score", number("ref", 3), "Score", gain="ref_gain"),
    Column("Gain", against_plain("ref_gain", 3)),
    Column("Cost, times plain's", number("cost", 1), known=("cost",)),
    *(
        Column(f"vs BGAugment, {name}", against_plain(f"{name}{OVER}", 1), known=(f"{name}{OVER}",))
        for name in LEVELS
    ),
)
# What it adds to the other tables.
HEADLINE = {"corrupted_difference": "corrupted, minus plain", "clean_difference": "clean, minus plain"}
wanted = plan.trained_models
TESTED = ("", "_low", "_high", "_p", "_p_holm")
FROM_TABLE_1 = [
    *("seeds", "draws", "queries", "classes"),
    *(f"{name}{end}" for name in ("corrupted", "clean", "relative_drop") for end in ("", "_low", "_high")),
    *(f"{name}{end}" for name in DIFFERENCES for end in TESTED),
    *("published_clean", "published_clean_sd", "published_clean_source", "published_clean_differs"),
]
FROM_TABLE_2 = ["ref", "ref_low", "ref_high", *(f"ref_gain{end}" for end in TESTED)]


def settings(study: Study) -> dict[str, Any]:
    """What training by each method takes."""
    return {"costs": passes(study)}


def reads(study: Study) -> sources.Sources:
    return sources.list_collected("all_queries") | sources.list_tables(1, 2)


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

    ``cost`` (``costs.passes``) is there if it is given, and if methods work on replaced backgrounds beside BGAugment alone,
    differences from that, too, ``corrupted_over_bgaugment`` and ``clean_over_bgaugment``.
    """
    of_folds = [c for c in retrieval if c == "folds"]
    rows = retrieval[[*MODEL, *of_folds, *FROM_TABLE_1]].merge(
        attribution_scores[[*MODEL, *FROM_TABLE_2]], on=MODEL, how="left"
    )
    over = pd.DataFrame(_over_bgaugment(rows, queries))
    if len(over):
        rows = correct_p_values(rows.merge(over, on=MODEL, how="left"), [f"{name}{OVER}" for name in LEVELS])
    if costs:
        rows["cost"] = rows[MODEL].agg("/".join, axis=1).map(costs)
    return rows


def _over_bgaugment(rows: pd.DataFrame, queries: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """A row a model on replaced backgrounds: by how much its MAP@R is above that of BGAugment alone."""
    of_models = queries.groupby(MODEL, sort=False, observed=True)
    models: list[Model] = list(rows[MODEL].itertuples(index=False, name=None))
    for model in models:
        alone = (*model[:3], names.BGAUGMENT)
        if model[-1].endswith(ON_REPLACED) and alone in models:
            mixed, replaced = (retrieval_values(of_models.get_group(m), m) for m in (model, alone))
            row = name_columns(model)
            for name in LEVELS:
                row |= tested(f"{name}{OVER}", mixed.against(replaced, [name]), 100)
            yield row
