"""Node: metrics of a model's embeddings, one value per query. It needs no network and no GPU."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from bgbias import plugins
from bgbias.engine import records
from bgbias.engine.node import Made, files_of, step
from bgbias.files.atomic import replacing
from bgbias.study.cell import CELL, Cell
from bgbias.study.params import Study

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd


SUBJECT = ("cell",)
VERSION = 1
OUTPUTS = {
    "scores": f"RUNS/scores/{CELL}/scores.csv",
    "queries": f"RUNS/scores/{CELL}/queries.parquet",
    "score_record": f"RUNS/scores/{CELL}/score.json",
}


def reads(study: Study, cell: Cell) -> dict[str, Made]:
    """The embeddings."""
    return files_of(step("embed", cell=cell), "embeddings")


def settings(study: Study, cell: Cell) -> dict[str, Any]:
    """The metrics that there are."""
    return {"metrics": plugins.names("metrics")}


def score(study: Study, cell: Cell) -> None:
    """Score a cell's embeddings: every metric, one value a query, clean and corrupted, symmetric and query-only."""
    import pandas as pd

    from bgbias.evaluation import embeddings
    from bgbias.evaluation.retrieval import neighbours

    files = study.files
    with records.node(study, step("score", cell=cell)) as made:
        outputs = made.outputs
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
