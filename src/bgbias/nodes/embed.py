"""Node: embeddings of a model's test photos."""

from bgbias import plugins
from bgbias.engine import inputs, records
from bgbias.engine.forecast import FLOAT, Cost, photos_of
from bgbias.engine.node import Dependencies, Limits, step
from bgbias.evaluation import conditions, embeddings
from bgbias.nodes._models import open_model
from bgbias.study import CELL, Cell, Study, plan

SUBJECT = ("cell",)
OUTPUTS = {
    "embeddings": f"RUNS/scores/{CELL}/embeddings.npz",
    "embed_record": f"RUNS/scores/{CELL}/embed.json",
}
LIMITS = Limits(memory_mb=8000)


def depends(study: Study, cell: Cell) -> Dependencies:
    if parts := plan.folds_of(study, cell):
        return Dependencies(inputs.of_models(parts, "embed", "embeddings"))
    names = study.evaluation.conditions
    photos = inputs.album(study, cell.dataset, conditions.needs(names), "test")
    return Dependencies(
        files=photos | inputs.model(study, cell),
        settings={
            "evaluation": study.evaluation.model_dump(exclude={"batch_size"}),
            **inputs.network_settings(study, cell),
            **inputs.mask_policy(study),
        },
        code=[plugins.load("conditions", name) for name in names],
    )


def cost(study: Study, cell: Cell) -> Cost:
    """Every test photo in every view."""
    test, unknown = photos_of(study, cell.dataset, "test")
    views = test * len(conditions.views(study.evaluation.conditions, study.evaluation.draws))
    size = views * study.train.embedding_dim * FLOAT
    if parts := plan.folds_of(study, cell):
        return Cost(disk=len(parts) * size, unknown=unknown)
    return Cost(test, (views, views), disk=size, unknown=unknown)


def embed(study: Study, cell: Cell, device: str = "auto") -> None:
    """Embed test photos in all views of the conditions. Each photo is decoded once."""
    from bgbias.evaluation import embedding
    from bgbias.models.inference import for_inference

    files, settings = study.files, study.evaluation
    with records.node(study, step("embed", cell=cell)) as record:
        if parts := plan.folds_of(study, cell):
            by_fold = [embeddings.read(files.at("embeddings", **part.wildcards)) for part in parts]
            embedded = embeddings.side_by_side(by_fold)
        else:
            model, album, how = open_model(study, cell, record.on(device))
            views = conditions.views(settings.conditions, settings.draws)
            needs = conditions.needs(settings.conditions)
            photos = album.evaluation(album.table("test"), needs, "test")
            embedded = embedding.embed(for_inference(model), photos, views, how)
        embedded.write(record.outputs["embeddings"])
        record.metrics["photos"] = len(embedded.ids)
        record.metrics["photos_without_trusted_mask"] = int((~embedded.usable).sum())
