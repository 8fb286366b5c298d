"""Retrieval under attack: what is left of it when photos are changed, unseen, so that the model
itself takes them for photos of other classes.

docs/methods.md, section 8. Percentages are 0..100.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from bgbias import attacks
from bgbias.photos.folds import seed_and_fold
from bgbias.report import names, sources
from bgbias.report.columns import Column, against_plain, interval, number, published_number
from bgbias.report.costs import passes
from bgbias.results import published, rows, uncertainty
from bgbias.results.rows import CLEAN, CORRUPTED, MAP_AT_R, MODEL, OTHERS, PRECISION_AT_1
from bgbias.study import plan
from bgbias.study.params import Study

NUMBER = 9
CAPTION = "attacked.j2"
RECALL_AT_4 = "recall_at_4"
DIFFERENCES = ("map_at_r_difference", "query_map_at_r_difference")  # from plain training
OF_ALL = {"nmi": 100, "pi_ratio": 1}
# Columns of the table, and what papers call them.
PUBLISHED = {"p_at_1": PRECISION_AT_1, RECALL_AT_4: RECALL_AT_4, "nmi": "nmi", "pi_ratio": "pi_ratio"}
COLUMNS = (
    Column("P@1", interval("p_at_1", 1), "P@1 [95 %]"),
    Column("MAP@R", interval("map_at_r", 1), "MAP@R [95 %]", gain="map_at_r_difference"),
    Column("vs plain, MAP@R", against_plain("map_at_r_difference", 1), "vs plain [95 %]"),
    Column("Queries alone, P@1", interval("query_p_at_1", 1), "Query P@1"),
    Column("Queries alone, MAP@R", interval("query_map_at_r", 1)),
    Column("vs plain, queries alone", against_plain("query_map_at_r_difference", 1)),
    Column("R@4", number(RECALL_AT_4, 1), "R@4"),
    Column("NMI", number("nmi", 1), "NMI"),
    Column("± seeds", number("nmi_sd_seeds", 1)),
    Column("Density", number("pi_ratio", 3), "Density"),
    Column("± seeds", number("pi_ratio_sd_seeds", 3)),
    Column("Cost, times plain's", number("cost", 1), "Cost"),
    Column("Paper, P@1", published_number("p_at_1", 2), known=("published_p_at_1",)),
    Column("Paper, R@4", published_number(RECALL_AT_4, 2), known=("published_recall_at_4",)),
    Column("Paper, NMI", published_number("nmi", 2), known=("published_nmi",)),
    Column("Paper, density", published_number("pi_ratio", 3), known=("published_pi_ratio",)),
)
HEADLINE = {"p_at_1": "P@1", "map_at_r": "MAP@R"}
wanted = plan.attacks
reads = sources.make_reads(
    "all_queries", "mask_report", cells=(plan.networks, "attack", "attacked", "attacked_metrics")
)


def settings(study: Study) -> dict[str, Any]:
    """Papers' numbers, what attacks are called, and what training by each method takes."""
    titles = {name: names.attack(name) for name in study.attacked.attacks}
    return published.settings(study) | {"attacks": titles, "costs": passes(study)}


def make(study: Study) -> pd.DataFrame:
    before = sources.queries(study, [*rows.OF_QUERIES, PRECISION_AT_1, RECALL_AT_4])
    queries, metrics = sources.read_cells(study, reads, "attacked", "attacked_metrics")
    return table(before, queries, metrics, passes(study), published.read())


def table(
    before: pd.DataFrame,
    queries: pd.DataFrame,
    metrics: pd.DataFrame,
    costs: Mapping[str, float],
    papers: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Table 9 from queries.parquet and from all cells' attacked.parquet and attacked.csv with the cells' names.

    Rows of each model: as the photos are, ``<method>+random_background``, and ``<method>+<attack>@<epsilon>`` for each
    attack. ``p_at_1`` and ``map_at_r`` are of query and gallery alike, ``query_*`` of such queries in the clean gallery;
    differences are from plain training seen alike, in points. ``nmi`` and ``pi_ratio`` have ``_sd_seeds``; the ``cost`` of
    training is in the first row (``costs.passes``); what a paper has, ``published_*``, is as in Table 1. All are means over
    draws.
    """
    lines: list[dict[str, Any]] = []
    compared: dict[str, dict[rows.Model, rows.Values]] = {}
    of_attacks, of_metrics = (dict(iter(part.groupby(MODEL, sort=False))) for part in (queries, metrics))
    for model, model_rows in sources.models(before):
        if model not in of_attacks:
            continue
        by_view = {view: model_rows[model_rows["condition"] == view] for view in (CLEAN, CORRUPTED)}
        by_view |= {str(view): part for view, part in of_attacks[model].groupby("attack", sort=False)}
        for view, part in by_view.items():
            of_view = part.assign(condition=view)
            settings = {"both": rows.SYMMETRIC} | ({} if view == CLEAN else {"query": rows.QUERY_ONLY})
            views = {column: (setting, view) for column, setting in settings.items()}
            label = model if view == CLEAN else (*model[:3], f"{model[3]}+{view}")
            precision, mean_precision, recall = (
                rows.values_for_views(of_view, model, views, value, others)
                for value, others in ((PRECISION_AT_1, ""), (MAP_AT_R, OTHERS), (RECALL_AT_4, ""))
            )
            compared.setdefault(view, {})[model] = mean_precision
            row = rows.heading(model_rows, precision, "queries") | rows.name_columns(label)
            plain = rows.plain_of(compared[view], model)
            for column, name in (("both", DIFFERENCES[0]), ("query", DIFFERENCES[1])):
                other = plain if column in mean_precision.columns else None
                row |= rows.tested(name, mean_precision.against(other, [column]), 100)
            for name, values in (("p_at_1", precision), ("map_at_r", mean_precision)):
                for column, prefix in (("both", ""), ("query", "query_")):
                    estimate = values.estimate([column]) if column in values.columns else uncertainty.UNKNOWN
                    row |= rows.share(prefix + name, estimate)
            row[RECALL_AT_4] = 100 * recall.estimate(["both"]).value
            own_metrics = of_metrics[model][of_metrics[model]["view"] == view]
            by_seed = own_metrics.groupby([seed_and_fold(run)[0] for run in own_metrics["seed"]])
            for name, scale in OF_ALL.items():
                of_all = scale * by_seed[name].mean().to_numpy(np.float64)
                row[name] = uncertainty.mean(of_all)
                row[f"{name}_sd_seeds"] = uncertainty.sd_over_seeds(of_all[:, None])
            row["cost"] = costs.get("/".join(model), math.nan) if view == CLEAN else math.nan
            for name, metric in PUBLISHED.items():
                row |= published.paper_columns(name, row, papers, model, metric, view)
            lines.append(row | {"view": view})
    return rows.tabulate_models(lines, within=(*rows.BESIDE, "view")).drop(columns="view")


def facts(study: Study, table: pd.DataFrame) -> dict[str, Any]:
    """What the caption says of attacks."""
    attacked = study.attacked
    return {
        "attacks": [names.attack(name) for name in attacked.attacks],
        "of_several": [names.attack(name) for name in attacked.attacks if attacks.targets(name) > 1],
        "epsilons": [f"{epsilon:g}" for epsilon in attacked.epsilon],
        "has_differences": table[list(DIFFERENCES)].notna().any(axis=None),
    }
