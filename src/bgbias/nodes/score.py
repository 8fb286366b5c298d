"""Node: metrics of a model's embeddings, one value per query. It needs no network; a GPU ranks large test sets."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from bgbias import plugins
from bgbias.compute.gpu_slots import has_gpu
from bgbias.engine import records
from bgbias.engine.node import Dependencies, files_of, step
from bgbias.errors import UserError
from bgbias.evaluation.conditions import CLEAN, QUERY_ONLY, RANDOM_BACKGROUND, SYMMETRIC
from bgbias.study import CELL, Cell, Study

if TYPE_CHECKING:
    import pandas as pd


SUBJECT = ("cell",)
RUNS_NETWORK = False
OUTPUTS = {
    "scores": f"RUNS/scores/{CELL}/scores.csv",
    "queries": f"RUNS/scores/{CELL}/queries.parquet",
    "score_record": f"RUNS/scores/{CELL}/score.json",
}


def depends(study: Study, cell: Cell) -> Dependencies:
    metrics = plugins.names("metrics")
    return Dependencies(
        files=files_of(step("embed", cell=cell), "embeddings"),
        settings={"metrics": metrics},
        code=[
            *(plugins.load("metrics", name) for name in metrics),
            *(plugins.load("conditions", name) for name in study.evaluation.conditions),
        ],
    )


def score(study: Study, cell: Cell, device: str = "auto") -> None:
    """Score a model's embeddings. MAP@R, P@1, RP and R@K, a value for each query, in every view."""
    import pandas as pd

    from bgbias.evaluation import embeddings, scores

    with records.node(study, step("score", cell=cell)) as record:
        if has_gpu() or device not in ("auto", "cpu"):  # else torch need not be imported
            device = record.on(device)
        embedded = embeddings.read(study.files.at("embeddings", **cell.wildcards))
        alone = ~pd.Series(embedded.labels).duplicated(keep=False).to_numpy()
        left_out = ~embedded.usable
        if embedded.given is not None:
            alone, left_out = embedded.given.relevant(embedded.labels) == 0, left_out & embedded.given.query
        queries_of = {
            "queries": int((embedded.is_query & ~alone).sum()),
            "queries_left_out": int(left_out.sum()),
            "queries_with_nobody_to_find": int((embedded.is_query & alone).sum()),
        }
        if not queries_of["queries"]:
            raise UserError(
                f"{cell.name}: none of the {len(alone)} test photos of {len(set(embedded.labels))} classes is a query:"
                f" {queries_of['queries_left_out']} have no trusted mask, {queries_of['queries_with_nobody_to_find']} of the"
                f" others are alone in their class. Look at the masks of {cell.dataset} (docs/masks.md), or add photos."
            )
        queries = scores.score_queries(embedded, cell.wildcards, device=device)
        record.write("queries", queries)
        record.write("scores", scores.means(queries, cell.wildcards))
        record.metrics |= _summary(queries) | queries_of


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
