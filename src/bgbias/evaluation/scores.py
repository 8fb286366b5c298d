"""From embeddings to metrics: one value a query for every view, and their means."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from bgbias import plugins
from bgbias.evaluation.conditions import CLEAN, SYMMETRIC
from bgbias.evaluation.embeddings import Embeddings
from bgbias.evaluation.metrics import OTHERS
from bgbias.evaluation.retrieval import DEEPEST_FIXED_RANK, neighbours
from bgbias.evaluation.without_class import change_for_others, deep_enough

VIEW = ("setting", "condition", "draw")


def of_queries(embeddings: Embeddings, model: Mapping[str, object]) -> pd.DataFrame:
    """Every metric of every usable query, view by view, in each setting of its condition; ``model``: columns that name it.

    ``OTHERS`` is what the query's class means for others (``without_class.change_for_others``).
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
            table = pd.DataFrame({**told, "image_id": embeddings.ids, "label": labels, **values})
            tables.append(table[embeddings.usable])
    return pd.concat(tables, ignore_index=True)


def means(queries: pd.DataFrame, model: Mapping[str, object]) -> pd.DataFrame:
    """Tidy means of what ``of_queries`` gave: view and metric, ``value``, and ``n``, the queries that have one."""
    keys = [*model, *VIEW]
    views = queries.groupby(keys, sort=False)
    of_metrics = {m: views[m].agg(value="mean", n="count") for m in plugins.names("metrics")}
    return pd.concat(of_metrics, names=["metric"]).reset_index()[[*keys, "metric", "value", "n"]]
