"""Node: embeddings of a model's test photos."""

from __future__ import annotations

from bgbias.engine import records
from bgbias.evaluation import embedding, embeddings
from bgbias.evaluation.embeddings import Embeddings
from bgbias.nodes._models import model_of
from bgbias.study import plan
from bgbias.study.album import Album
from bgbias.study.cell import Cell
from bgbias.study.params import Study


def embed(study: Study, cell: Cell, device: str = "auto") -> None:
    """Embed a cell's test photos in all views of the grid's conditions, decoding each photo once. Four folds' models side by
    side have embedded them already.
    """
    files = study.files
    outputs = {"embeddings": files.at("embeddings", **cell.wildcards)}
    with records.node(study, "embed", outputs, files.at("embed_record", **cell.wildcards), cell=cell) as made:
        if parts := plan.folds_of(study, cell):
            by_fold = [embeddings.read(files.at("embeddings", **part.wildcards)) for part in parts]
            embedded = embeddings.side_by_side(by_fold)
        else:
            embedded = _embedded(study, cell, device, made)
        embedded.write(outputs["embeddings"])
        made.metrics |= {
            "photos": len(embedded.ids),
            "photos_without_trusted_mask": int((~embedded.usable).sum()),
        }


def _embedded(study: Study, cell: Cell, device: str, made: records.Record) -> Embeddings:
    from bgbias.compute.device import describe, pick
    from bgbias.models.inference import for_inference

    device = pick(device)
    made.device = describe(device)
    model = for_inference(model_of(study, cell).to(device))
    album = Album(study, cell.dataset, model.resize, model.input_size)
    settings = study.evaluation
    photos = album.evaluation(album.table("test"), settings.needs, "test")
    pooled = not plan.trains(study, cell)
    return embedding.embed(
        model, photos, settings.views, device, settings.precision, settings.batch_size, pooled
    )
