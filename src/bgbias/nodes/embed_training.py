"""Node: embeddings of training photos, on which probes are fitted where a dataset says so."""

from bgbias import plugins
from bgbias.engine import inputs, records
from bgbias.engine.forecast import FLOAT, Cost, photos_of
from bgbias.engine.node import Limits, Modules, Settings, StepOutput, step
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


def reads(study: Study, cell: Cell) -> dict[str, StepOutput]:
    if parts := plan.folds_of(study, cell):
        return inputs.of_models(parts, "embed_training", "training_embeddings")
    return inputs.photos(_dataset(study, cell)) | inputs.model(study, cell)


def settings(study: Study, cell: Cell) -> Settings:
    if plan.folds_of(study, cell):
        return {}
    return {
        "evaluation": {"precision": study.evaluation.precision},
        "probes": {"dataset": _dataset(study, cell), "photos": _most(study, cell)},
        **inputs.network_settings(study, cell, "embed_training"),
    }


def uses(study: Study, cell: Cell) -> Modules:
    return [] if plan.folds_of(study, cell) else [plugins.load("conditions", CLEAN)]


def cost(study: Study, cell: Cell) -> Cost:
    count, unknown = photos_of(study, _dataset(study, cell), "train")
    count = min(count, _most(study, cell) or count)
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
            model, album, how = open_model(study, cell, record.on(device), _dataset(study, cell))
            table = album.table("train").keyed("probe", _most(study, cell))
            photos = album.evaluation(table, frozenset(), "train")
            embedded = embedding.embed(for_inference(model), photos, [(CLEAN, 0)], how)
        embedded.write(record.outputs["training_embeddings"])
        record.metrics["training_photos"] = len(embedded.ids)


def _dataset(study: Study, cell: Cell) -> str:
    other = study.datasets[cell.dataset].fit_probes_on
    if other is None:
        raise UserError(
            f"Probes of {cell.dataset} are fitted on parts of its test photos. Set datasets.{cell.dataset}.fit_probes_on in"
            " params.yaml, if its test photos are of the classes of training photos."
        )
    return other


def _most(study: Study, cell: Cell) -> int | None:
    return study.datasets[_dataset(study, cell)].probe_photos
