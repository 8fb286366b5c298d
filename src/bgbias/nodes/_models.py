"""The network that a cell names: as it was trained, or as its backbone comes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bgbias import seeds
from bgbias.engine import inputs
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
    key = (cell.dataset, cell.backbone, cell.run)
    if not plan.pretraining(study, cell.backbone):
        return network(study, cell.backbone, key, study.train.freeze_batch_norm)
    from safetensors.torch import load_file

    (made,) = inputs.backbone_weights(study, cell).values()
    model = network(study, cell.backbone, key, study.train.freeze_batch_norm, starts=False)
    model.trunk.load_state_dict(load_file(made.path(study)), strict=True)
    return model


def network(
    study: Study, backbone: str, key: tuple[object, ...], freeze_batch_norm: bool, starts: bool = True
) -> EmbeddingModel:
    """A backbone with a random embedding layer; random by ``key``. ``starts``: with the weights that params.yaml gives it."""
    from bgbias.models.model import build_model

    named = plan.backbone(study, backbone)
    weights = file(study, owner("backbones", backbone)) if starts else None
    drawn = seeds.torch_generator("model", *key)
    return build_model(
        named.kind, named.params(), study.train.embedding_dim, drawn, freeze_batch_norm, weights
    )
