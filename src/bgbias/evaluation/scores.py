"""From embeddings to metrics: one value a query for every view, and their means."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from bgbias import plugins
from bgbias.evaluation.conditions import CLEAN, QUERY_ONLY, SYMMETRIC, View
from bgbias.evaluation.embeddings import Embeddings
from bgbias.evaluation.metrics import OF_DONOR, OTHERS
from bgbias.evaluation.retrieval import DEEPEST_FIXED_RANK, neighbours
from bgbias.evaluation.without_class import change_for_others, deep_enough

VIEW = ("setting", "condition", "draw")


def of_queries(embeddings: Embeddings, model: Mapping[str, object]) -> pd.DataFrame:
    """Every metric of every usable query, view by view, in each setting of its condition; ``model``: columns that name it.

    ``OTHERS`` is what the query's class means for others (``without_class.change_for_others``). Where queries stand in front of
    other photos' backgrounds in a clean gallery, ``OF_DONOR`` is whether the nearest photo is of the background's class and not
    of the object's: the background's cue beat the object's.
    """
    labels, tables = embeddings.labels, []
    deep = deep_enough(labels)
    for (condition, draw), queries in embeddings.views.items():
        for setting in plugins.load("conditions", condition).SETTINGS:
            gallery = queries if setting == SYMMETRIC else embeddings.views[CLEAN, 0]
            ranked = neighbours(queries, labels, gallery, labels, max(deep, DEEPEST_FIXED_RANK))
            told = {**model, "setting": setting, "condition": condition, "draw": draw}
            values = {m: plugins.load("metrics", m).per_query(ranked) for m in plugins.names("metrics")}
            values[OTHERS] = change_for_others(ranked, labels, embeddings.usable)
            donors = embeddings.donors.get((condition, draw))
            if donors is not None and setting == QUERY_ONLY:
                nearest = ranked.indices[:, 0]
                beaten = (nearest >= 0) & (labels[nearest] == donors) & (donors != labels)
                values[OF_DONOR] = beaten.astype(np.float64)
            table = pd.DataFrame({**told, "image_id": embeddings.ids, "label": labels, **values})
            tables.append(table[embeddings.usable])
    return pd.concat(tables, ignore_index=True)


def means(queries: pd.DataFrame, model: Mapping[str, object]) -> pd.DataFrame:
    """Tidy means of what ``of_queries`` gave: view and metric, ``value``, and ``n``, the queries that have one."""
    keys = [*model, *VIEW]
    views = queries.groupby(keys, sort=False)
    of_metrics = {m: views[m].agg(value="mean", n="count") for m in plugins.names("metrics")}
    return pd.concat(of_metrics, names=["metric"]).reset_index()[[*keys, "metric", "value", "n"]]


def of_cured(
    before: Embeddings, views: Mapping[View, np.ndarray], told: Mapping[str, object]
) -> pd.DataFrame:
    """MAP@R and P@1 of the usable queries of a cured model, view by view: ``symmetric``, where the gallery is cured, too, and
    seen likewise; and ``query``, where it is the clean one from ``before`` the cure: an index that stays as it is.
    """
    labels, tables = before.labels, []
    deep = max(deep_enough(labels), DEEPEST_FIXED_RANK)
    for (condition, draw), queries in views.items():
        for setting, gallery in ((SYMMETRIC, queries), (QUERY_ONLY, before.views[CLEAN, 0])):
            ranked = neighbours(queries, labels, gallery, labels, deep)
            where = {**told, "setting": setting, "condition": condition, "draw": draw}
            values = {m: plugins.load("metrics", m).per_query(ranked) for m in ("map_at_r", "precision_at_1")}
            values[OTHERS] = change_for_others(ranked, labels, before.usable)
            table = pd.DataFrame({**where, "image_id": before.ids, "label": labels, **values})
            tables.append(table[before.usable])
    return pd.concat(tables, ignore_index=True)
