"""From embeddings to scores: the node that ranks every photo's neighbours. It needs no network and no GPU."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from bgbias import plugins
from bgbias.engine import records
from bgbias.evaluation import embeddings
from bgbias.files.atomic import replacing
from bgbias.study.cell import Cell
from bgbias.study.params import Study


def score(study: Study, cell: Cell) -> None:
    """Score a cell's embeddings: every metric, one value a query, clean and corrupted, symmetric and query-only."""
    from bgbias.evaluation.retrieval import neighbours

    files = study.files
    outputs = {name: files.at(name, **cell.wildcards) for name in ("scores", "queries")}
    with records.node(study, "score", outputs, files.at("score_record", **cell.wildcards), cell=cell) as made:
        found = embeddings.read(files.at("embeddings", **cell.wildcards))
        parts = []

        def add(setting: str, condition: str, draw: int, queries: np.ndarray, gallery: np.ndarray) -> None:
            ranked = neighbours(queries, found.labels, gallery, found.labels)
            values = {
                name: plugins.load("metrics", name).per_query(ranked) for name in plugins.names("metrics")
            }
            parts.append(
                pd.DataFrame(
                    {
                        **cell.wildcards,
                        "setting": setting,
                        "condition": condition,
                        "draw": draw,
                        "image_id": found.ids,
                        "label": found.labels,
                        **values,
                    }
                )[found.usable]
            )

        add("symmetric", "clean", 0, found.clean, found.clean)
        for draw, corrupted in enumerate(found.corrupted):
            add("symmetric", "random_background", draw, corrupted, corrupted)
            add("query", "random_background", draw, corrupted, found.clean)
        queries = pd.concat(parts, ignore_index=True)
        with replacing(outputs["queries"]) as temporary:
            queries.to_parquet(temporary, index=False)
        metrics = list(plugins.names("metrics"))
        keys = [*cell.wildcards, "setting", "condition", "draw"]
        tidy = queries.melt(keys, metrics, var_name="metric").groupby([*keys, "metric"], sort=False)["value"]
        with replacing(outputs["scores"]) as temporary:
            tidy.agg(value="mean", n="count").reset_index().to_csv(temporary, index=False)
        made.metrics |= _summary(queries)
        made.metrics |= {"queries": int(found.usable.sum()), "queries_left_out": int((~found.usable).sum())}


def _summary(queries: pd.DataFrame) -> dict[str, float]:
    means = queries.groupby(["setting", "condition"])[["map_at_r", "precision_at_1"]].mean().to_dict()
    clean, corrupted, query = (
        ("symmetric", "clean"),
        ("symmetric", "random_background"),
        ("query", "random_background"),
    )
    return {
        "map_at_r_clean": means["map_at_r"][clean],
        "map_at_r_corrupted": means["map_at_r"][corrupted],
        "map_at_r_query_corrupted": means["map_at_r"][query],
        "precision_at_1_clean": means["precision_at_1"][clean],
        "precision_at_1_corrupted": means["precision_at_1"][corrupted],
        "relative_drop": 1 - means["map_at_r"][corrupted] / (means["map_at_r"][clean] or math.nan),
    }
