"""Node: what classifiers on a model's embeddings make of its test photos. It needs no network and no GPU."""

from __future__ import annotations

from typing import Any

from bgbias.engine import records
from bgbias.engine.node import Made, files_of, step
from bgbias.errors import UserError
from bgbias.evaluation.conditions import CLEAN, RANDOM_BACKGROUND
from bgbias.files.atomic import replacing
from bgbias.study.cell import CELL, Cell
from bgbias.study.params import Study

SUBJECT = ("cell",)
OUTPUTS = {
    "probed": f"RUNS/scores/{CELL}/probed.parquet",
    "probe_record": f"RUNS/scores/{CELL}/probe.json",
}


def reads(study: Study, cell: Cell) -> dict[str, Made]:
    """The embeddings."""
    return files_of(step("embed", cell=cell), "embeddings")


def settings(study: Study, cell: Cell) -> dict[str, Any]:
    """Into how many parts photos are divided."""
    return {"probes": study.probes.model_dump()}


def probe(study: Study, cell: Cell) -> None:
    """Fit a linear layer and let nearest neighbours vote, on a model's embeddings of clean photos; classify others."""
    from bgbias.evaluation import embeddings, probes

    if study.probes.folds is None:
        raise UserError(
            f"Grid '{study.grid}' asks for no probes; set grids.{study.grid}.probes.folds in params.yaml."
        )
    with records.node(study, step("probe", cell=cell)) as made:
        embedded = embeddings.read(study.files.at("embeddings", **cell.wildcards))
        queries = probes.of_queries(embedded, study.probes.folds)
        with replacing(made.outputs["probed"]) as temporary:
            queries.to_parquet(temporary, index=False)
        means = queries.groupby("condition")[list(probes.PROBES)].mean().to_dict()
        made.metrics |= {
            f"{name}_{said}": means[name][condition]
            for name in probes.PROBES
            for condition, said in ((CLEAN, "clean"), (RANDOM_BACKGROUND, "corrupted"))
        }
        made.metrics["queries"] = int(queries["image_id"].nunique())
