"""Node: embeddings of training photos, on which probes are fitted where a dataset says so."""

from bgbias import plugins
from bgbias.engine import inputs, records
from bgbias.engine.forecast import FLOAT, Cost, photos_of
from bgbias.engine.node import Dependencies, Limits, step
from bgbias.errors import UserError
from bgbias.evaluation import embeddings
from bgbias.evaluation.conditions import CLEAN
from bgbias.nodes._models import open_model
from bgbias.study import CELL, Cell, Study, plan

SUBJECT = ("cell",)
OUTPUTS = {
    "training_embeddings": f"RUNS/scores/{CELL}/training_embeddings.npz",
    "embed_training_record": f"RUNS/scores/{CELL}/embed_training.json",
}
LIMITS = Limits(memory_mb=8000)


def depends(study: Study, cell: Cell) -> Dependencies:
    if parts := plan.folds_of(study, cell):
        return Dependencies(inputs.of_models(parts, "embed_training", "training_embeddings"))
    dataset, photos = _fitted_on(study, cell)
    return Dependencies(
        files=inputs.photos(dataset) | inputs.model(study, cell),
        settings={
            "evaluation": {"precision": study.evaluation.precision},
            "probes": {"dataset": dataset, "photos": photos},
            **inputs.network_settings(study, cell),
        },
        code=[plugins.load("conditions", CLEAN)],
    )


def cost(study: Study, cell: Cell) -> Cost:
    dataset, most = _fitted_on(study, cell)
    count, unknown = photos_of(study, dataset, "train")
    count = min(count, most or count)
    size = count * study.train.embedding_dim * FLOAT
    if parts := plan.folds_of(study, cell):
        return Cost(disk=len(parts) * size, unknown=unknown)
    return Cost(count, (count, count), disk=size, unknown=unknown)


def embed_training(study: Study, cell: Cell, device: str = "auto") -> None:
    """Embed the training photos that probes are fitted on."""
    from bgbias.evaluation import embedding
    from bgbias.models.inference import for_inference

    files = study.files
    with records.node(study, step("embed_training", cell=cell)) as record:
        if parts := plan.folds_of(study, cell):
            by_fold = [embeddings.read(files.at("training_embeddings", **part.wildcards)) for part in parts]
            embedded = embeddings.side_by_side(by_fold)
        else:
            dataset, most = _fitted_on(study, cell)
            model, album, how = open_model(study, cell, record.on(device), dataset)
            table = album.table("train").keyed("probe", most)
            photos = album.evaluation(table, frozenset(), "train")
            embedded = embedding.embed(for_inference(model), photos, [(CLEAN, 0)], how)
        embedded.write(record.outputs["training_embeddings"])
        record.metrics["training_photos"] = len(embedded.ids)


def _fitted_on(study: Study, cell: Cell) -> tuple[str, int | None]:
    """The dataset whose training photos the cell's probes are fitted on, and how many of them; None for all."""
    other = study.datasets[cell.dataset].fit_probes_on
    if other is None:
        raise UserError(
            f"Probes of {cell.dataset} are fitted on parts of its test photos. Set datasets.{cell.dataset}.fit_probes_on in"
            " params.yaml, if its test photos are of the classes of training photos."
        )
    return other, study.datasets[other].probe_photos
