"""From embeddings to metrics: one value a query for every view, and their means."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from bgbias import plugins
from bgbias.evaluation import metrics
from bgbias.evaluation.conditions import CLEAN, QUERY_ONLY, SYMMETRIC
from bgbias.evaluation.embeddings import Embeddings
from bgbias.evaluation.metrics import OF_DONOR, OTHERS
from bgbias.evaluation.retrieval import DEEPEST_FIXED_RANK, neighbours
from bgbias.evaluation.whole_gallery import of_photos
from bgbias.evaluation.without_class import change_for_others, deep_enough
from bgbias.evaluation.without_shared import how_many, without_shared

VIEW = ("setting", "condition", "draw")


def of_queries(
    embeddings: Embeddings, model: Mapping[str, object], index: np.ndarray | None = None
) -> pd.DataFrame:
    """Every metric of every usable query, view by view, in each setting of its condition; ``model``: columns that name it.

    ``index`` [N, D] is a gallery of the same photos that is there already: every view's queries are ranked in it, too, and not in
    the clean view. ``OTHERS`` is what the query's class means for others (``without_class.change_for_others``). Where queries
    stand in front of other photos' backgrounds, photos in front of the very same one are left out of their gallery
    (``without_shared``); in a clean gallery, ``OF_DONOR`` is whether the nearest photo is of the background's class and not of
    the object's: the background's cue beat the object's. Where the dataset gives queries and gallery, rankings are of
    ``whole_gallery``, and the metrics of whole ones are there, too.
    """
    labels, given, asked, tables = embeddings.labels, embeddings.given, embeddings.asked, []
    deep = deep_enough(labels)
    there = embeddings.views[CLEAN, 0] if index is None else index
    for (condition, draw), queries in embeddings.views.items():
        settings = (
            plugins.load("conditions", condition).SETTINGS if index is None else (SYMMETRIC, QUERY_ONLY)
        )
        for setting in settings:
            gallery = queries if setting == SYMMETRIC else there
            donors, among = embeddings.donors.get((condition, draw)), setting == SYMMETRIC
            if given is None:
                more = 0 if donors is None else how_many(donors, among)
                ranked = neighbours(queries, labels, gallery, labels, max(deep, DEEPEST_FIXED_RANK) + more)
                if donors is not None:
                    ranked = without_shared(ranked, labels, donors, among)
                of_whole: dict[str, np.ndarray] = {}
            else:
                ranked, of_whole = of_photos(queries, gallery, labels, given, asked, donors, among)
            told = {**model, "setting": setting, "condition": condition, "draw": draw}
            values = {m: plugins.load("metrics", m).per_query(ranked) for m in metrics.names()} | of_whole
            values[OTHERS] = change_for_others(ranked, labels, asked)
            if donors is not None and not among:
                nearest, lent = ranked.indices[:, 0], labels[donors]
                beaten = (nearest >= 0) & (labels[nearest] == lent) & (lent != labels)
                values[OF_DONOR] = beaten.astype(np.float64)
            table = pd.DataFrame({**told, "image_id": embeddings.ids, "label": labels, **values})
            tables.append(table[asked])
    return pd.concat(tables, ignore_index=True)


def means(queries: pd.DataFrame, model: Mapping[str, object]) -> pd.DataFrame:
    """Tidy means of what ``of_queries`` gave: view and metric, ``value``, and ``n``, the queries that have one."""
    keys = [*model, *VIEW]
    views = queries.groupby(keys, sort=False)
    of_metrics = {m: views[m].agg(value="mean", n="count") for m in plugins.names("metrics") if m in queries}
    return pd.concat(of_metrics, names=["metric"]).reset_index()[[*keys, "metric", "value", "n"]]
