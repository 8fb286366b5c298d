"""Shape or texture: whose class models find for an object's silhouette that is filled with the
texture of an object of another class.

After Geirhos et al. (ICLR 2019), with nearest neighbours in the place of a classifier's answers;
docs/methods.md, section 9. Percentages are 0..100.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from bgbias.evaluation.metrics import OF_DONOR
from bgbias.report import sources
from bgbias.report.columns import NOTHING, Column, interval, number
from bgbias.results import conflict, rows, uncertainty
from bgbias.study import plan
from bgbias.study.params import Study

NUMBER = 14
CAPTION = "shape_texture.j2"
CONDITION = "cue_conflict"
SEED = "shape_share_seed_"
NONE = "none"
COLUMNS = (
    Column("Negatives", lambda row: str(row["negatives"]), "Negatives", known=("alpha",)),
    Column("Alpha", lambda row: f"{row['alpha']:g}".replace("nan", NOTHING), "Alpha", known=("alpha",)),
    Column("Shape, %", interval("shape", 1), "Shape, %"),
    Column("Texture, %", interval("texture", 1), "Texture, %"),
    Column("Neither, %", interval("neither", 1)),
    Column("By chance, %", number("chance", 1), known=("chance",)),
    Column("Shape share, %", interval("shape_share", 1), "Shape share, % [95 %]"),
)
HEADLINE = {"shape_share": "decisions by shape"}
reads = sources.make_reads("all_queries", "mask_report", photos=True)


def settings(study: Study) -> dict[str, Any]:
    """Which negatives backbones were kept away from as they learned without labels."""
    return {"learned": pretraining_columns(study)}


def wanted(study: Study) -> bool:
    """Whether the grid's photos are seen so."""
    return CONDITION in study.evaluation.conditions


def pretraining_columns(study: Study) -> dict[str, dict[str, Any]]:
    """Of each backbone that is pretrained here its ``negatives``, their ``alpha``, and ``alike``: the first backbone that differs
    from it in these alone, which may be itself.
    """
    learned: dict[str, dict[str, Any]] = {}
    before: dict[str, Any] = {}
    for name in dict.fromkeys(cell.backbone for cell in plan.cells(study)):
        if pretraining := plan.pretraining(study, name):
            params = pretraining.params()
            before[name] = plan.split_learning(study, name)[:2]
            alike = next(other for other, like in before.items() if like == before[name])
            alpha = 0.0 if params.active_negatives == NONE else params.alpha
            learned[name] = {"negatives": _negatives(params), "alpha": alpha, "alike": alike}
    return learned


def _negatives(params: Any) -> str:
    """Of a pretraining's options; patches of other sides than usual are other negatives."""
    sides = {name: getattr(params, name) for name in ("smallest", "largest")}
    usual = all(type(params).model_fields[name].default == side for name, side in sides.items())
    kind = params.active_negatives
    return kind if usual or kind != "patches" else f"{kind} {params.smallest}–{params.largest}"


def make(study: Study) -> pd.DataFrame:
    queries = sources.queries(study, [*rows.OF_QUERIES, rows.PRECISION_AT_1, OF_DONOR])
    photos = sources.test_splits(study)
    chance = {d: chance_levels(split.labels) for d, split in photos.items() if split.given is None}
    return table(queries, pretraining_columns(study), chance)


def chance_levels(labels: np.ndarray) -> dict[int, float]:
    """How often the first of a random order is of a query's class, 0..1, for each class of photos with these ``labels`` [N]: of
    all photos but the query's own and its donor's, which is of another class.
    """
    classes, sizes = np.unique(labels, return_counts=True)
    return dict(zip(classes.tolist(), ((sizes - 1) / max(len(labels) - 2, 1)).tolist(), strict=True))


def table(
    queries: pd.DataFrame,
    learned: Mapping[str, dict[str, Any]] | None = None,
    chance: Mapping[str, Mapping[int, float]] | None = None,
) -> pd.DataFrame:
    """Table 14 from queries.parquet; ``learned`` as ``pretraining_columns`` gives it, ``chance`` as ``chance_levels`` does
    of each dataset.

    ``negatives``, ``alpha`` and ``alike`` of the backbone's pretraining, if it has one; in percent of queries and draws
    ``shape``, whose nearest clean photo is of the silhouette's class, ``texture``, of the texture's, and ``neither``, and
    the ``shape_share``, shape / (shape + texture); ``chance``, what ``shape`` is in a random order; and the share of each
    seed, ``shape_share_seed_<seed>``.
    """
    queries = queries[(queries["setting"] == rows.QUERY_ONLY) & (queries["condition"] == CONDITION)]
    # Who is alone in a class cannot be found by shape.
    queries = queries[queries[rows.PRECISION_AT_1].notna()]
    lines = []
    for model, model_rows in sources.models(queries):
        values = conflict.decision_rates(model_rows, model, "shape", "texture")
        row = rows.heading(model_rows, values, "queries")
        row |= {"negatives": NOTHING, "alpha": math.nan, "alike": NOTHING} | (learned or {}).get(model[1], {})
        both = ["shape", "texture"]
        row |= rows.shares(values, both)
        row |= rows.share("neither", values.estimate(both, lambda shape, texture: 1 - shape - texture))
        row |= rows.share("shape_share", values.estimate(both, conflict.share))
        if of_class := (chance or {}).get(model[0]):
            row["chance"] = 100 * float(np.mean([of_class[label] for label in values.classes]))
        for at, seed in enumerate(values.seeds):
            of_seed = [column[at] for column in values.columns.values()]
            row[f"{SEED}{seed}"] = 100 * uncertainty.estimate(of_seed, values.classes, conflict.share).value
        lines.append(row)
    return rows.tabulate_models(lines)
