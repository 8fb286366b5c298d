"""From embeddings to scores: the node that ranks every photo's neighbours. It needs no network and no GPU."""

from __future__ import annotations

import math

import pandas as pd

from bgbias.engine import records
from bgbias.evaluation import embeddings
from bgbias.evaluation.conditions import CLEAN, QUERY_ONLY, RANDOM_BACKGROUND, SYMMETRIC
from bgbias.files.atomic import replacing
from bgbias.study.cell import Cell
from bgbias.study.params import Study


def score(study: Study, cell: Cell) -> None:
    """Score a cell's embeddings: every metric, one value a query, in every view."""
    from bgbias.evaluation import scores

    files = study.files
    outputs = {name: files.at(name, **cell.wildcards) for name in ("scores", "queries")}
    with records.node(study, "score", outputs, files.at("score_record", **cell.wildcards), cell=cell) as made:
        embedded = embeddings.read(files.at("embeddings", **cell.wildcards))
        queries = scores.of_queries(embedded, cell.wildcards)
        with replacing(outputs["queries"]) as temporary:
            queries.to_parquet(temporary, index=False)
        with replacing(outputs["scores"]) as temporary:
            scores.means(queries, cell.wildcards).to_csv(temporary, index=False)
        usable = int(embedded.usable.sum())
        made.metrics |= _summary(queries)
        made.metrics |= {"queries": usable, "queries_left_out": len(embedded.ids) - usable}


def _summary(queries: pd.DataFrame) -> dict[str, float]:
    means = queries.groupby(["setting", "condition"])[["map_at_r", "precision_at_1"]].mean().to_dict()
    clean, corrupted = (SYMMETRIC, CLEAN), (SYMMETRIC, RANDOM_BACKGROUND)
    return {
        "map_at_r_clean": means["map_at_r"][clean],
        "map_at_r_corrupted": means["map_at_r"][corrupted],
        "map_at_r_query_corrupted": means["map_at_r"][QUERY_ONLY, RANDOM_BACKGROUND],
        "precision_at_1_clean": means["precision_at_1"][clean],
        "precision_at_1_corrupted": means["precision_at_1"][corrupted],
        "relative_drop": 1 - means["map_at_r"][corrupted] / (means["map_at_r"][clean] or math.nan),
    }
