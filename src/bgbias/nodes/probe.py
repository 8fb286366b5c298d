"""Node: what classifiers on a model's embeddings make of its test photos. It needs no network and no GPU."""

import numpy as np

from bgbias.engine import inputs, records
from bgbias.engine.node import Dependencies, files_of, step
from bgbias.evaluation.conditions import CLEAN, RANDOM_BACKGROUND
from bgbias.study import CELL, Cell, Study, plan

SUBJECT = ("cell",)
OUTPUTS = {
    "probed": f"RUNS/scores/{CELL}/probed.parquet",
    "probe_record": f"RUNS/scores/{CELL}/probe.json",
}


def depends(study: Study, cell: Cell) -> Dependencies:
    """The embeddings, and what probes are fitted on: into how many parts photos are divided, or whose training photos, with
    what both are of.
    """
    read = files_of(step("embed", cell=cell), "embeddings")
    if (fitted := study.datasets[cell.dataset].fit_probes_on) is None:
        return Dependencies(read, {"probes": {"folds": study.probes.folds}})
    of_training = step("embed_training", cell=plan.fitted_cell(study, cell))
    read |= files_of(of_training, "training_embeddings") | inputs.tables(cell.dataset, fitted)
    return Dependencies(read, {"probes": {"dataset": fitted}})


def probe(study: Study, cell: Cell) -> None:
    """Fit linear probes and nearest neighbours. On a model's embeddings of clean photos; others are classified."""
    from bgbias.evaluation import embeddings, probes

    folds = plan.require_setting(study, "probes", "folds", "asks for no probes")
    with records.node(study, step("probe", cell=cell)) as record:
        embedded = embeddings.read(study.files.at("embeddings", **cell.wildcards))
        if (fitted := study.datasets[cell.dataset].fit_probes_on) is None:
            queries = probes.score_queries(embedded, folds)
        else:
            owner = plan.fitted_cell(study, cell)
            training = embeddings.read(study.files.at("training_embeddings", **owner.wildcards))
            table, fitted_table = (study.files.at("table", dataset=d) for d in (cell.dataset, fitted))
            as_fitted = probes.class_numbers(table, cell.dataset, fitted_table, fitted)
            labels = np.array([as_fitted[label] for label in embedded.labels.tolist()], np.int64)
            queries = probes.of_others(embedded, training, labels)
        record.write("probed", queries)
        means = queries.groupby("condition")[list(probes.PROBES)].mean().to_dict()
        record.metrics |= {
            f"{name}_{short}": means[name][condition]
            for name in probes.PROBES
            for condition, short in ((CLEAN, "clean"), (RANDOM_BACKGROUND, "corrupted"))
        }
        record.metrics["queries"] = int(queries["image_id"].nunique())
