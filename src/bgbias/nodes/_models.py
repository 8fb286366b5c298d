"""The network that a cell names: as it was trained, or as its backbone comes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bgbias import seeds
from bgbias.study import plan
from bgbias.study.cell import Cell
from bgbias.study.params import Study
from bgbias.study.weights import file, owner

if TYPE_CHECKING:
    from bgbias.models.model import EmbeddingModel


def model_of(study: Study, cell: Cell) -> EmbeddingModel:
    """The cell's model: as it was trained, or its backbone as it comes."""
    from bgbias.models.model import load

    if plan.trains(study, cell):
        return load(study.files.at("model", **cell.wildcards))
    return fresh_model(study, cell)


def fresh_model(study: Study, cell: Cell) -> EmbeddingModel:
    """The cell's model before any training: the backbone's weights, if it has any, and a random embedding layer."""
    from bgbias.models.model import build_model

    named = plan.backbone(study, cell.backbone)
    return build_model(
        named.kind,
        named.params(),
        study.train.embedding_dim,
        seeds.torch_generator("model", cell.dataset, cell.backbone, cell.run),
        study.train.freeze_batch_norm,
        file(study, owner("backbones", cell.backbone)),
    )
