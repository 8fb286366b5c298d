"""The network that a cell names: as it was trained, or as its backbone comes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bgbias import seeds
from bgbias.compute.lazy import torch
from bgbias.engine import inputs
from bgbias.evaluation.conditions import CLEAN
from bgbias.models.settings import How
from bgbias.study import Study, plan
from bgbias.study.cell import PRETRAINED, Cell
from bgbias.study.sources import weights_file

if TYPE_CHECKING:
    from bgbias.models.model import EmbeddingModel
    from bgbias.study.album import Album

# Photos whose statistics folded batch norms get, and how many of them are seen at once.
STATISTICS, TOGETHER = 256, 32


def open_model(
    study: Study, cell: Cell, device: str, dataset: str = "", fold: int = 0
) -> tuple[EmbeddingModel, Album, How]:
    """The cell's model, the photos as it sees them, and how to embed; ``fold``: of the classes."""
    from bgbias.study.album import Album

    model = model_of(study, cell).to(device)
    album = Album(study, dataset or cell.dataset, model.resize, model.input_size, fold)
    settings = study.evaluation
    return model, album, How(device, settings.precision, settings.batch_size, cell.method == PRETRAINED)


def model_of(study: Study, cell: Cell) -> EmbeddingModel:
    """The cell's model: as it was trained, or its backbone as it comes."""
    from bgbias.models.model import load

    if plan.trains(study, cell):
        return load(study.files.at("model", **cell.wildcards))
    return fresh_model(study, cell)


def fresh_model(study: Study, cell: Cell) -> EmbeddingModel:
    """The cell's model before any training: the backbone's weights, if it has any, and a random embedding layer."""
    key = (cell.dataset, cell.backbone, cell.run)
    frozen, dim = study.train.freeze_batch_norm, study.train.embedding_dim
    learned = plan.pretraining(study, cell.backbone)
    model = network(study, cell.backbone, key, frozen, dim, starts=learned is None)
    if learned:
        from safetensors.torch import load_file

        (weights,) = inputs.backbone_weights(study, cell).values()
        model.trunk.load_state_dict(load_file(weights.path(study)), strict=True)
    return model


def with_statistics(model: EmbeddingModel, album: Album) -> dict[str, str]:
    """Make a model ready for training that normalises by a batch's photos: batch norms that were folded into convolutions get
    statistics again, those of training photos. What a record says of it.
    """
    from bgbias.models import norms

    if not norms.is_folded(model):
        return {}
    table = album.table("train").keyed("batch norms", STATISTICS)
    views = album.evaluation(table, frozenset(), "train").views([(CLEAN, 0)])
    photos = torch.from_numpy(np.stack(list(views))).permute(0, 3, 1, 2)
    norms.unfold(model, (model.preprocess(part) for part in photos.split(TOGETHER)))
    return {"batch_norms": f"were folded; their statistics are of {len(table.ids)} training photos"}


def network(
    study: Study,
    backbone: str,
    key: tuple[object, ...],
    freeze_batch_norm: bool,
    dim: int,
    starts: bool = True,
) -> EmbeddingModel:
    """A backbone, with its weights if it ``starts`` so, and a random embedding layer by ``key``."""
    from bgbias.models.model import build_model

    entry = plan.backbone(study, backbone)
    weights = weights_file(study, entry) if starts else None
    generator = seeds.torch_generator("model", *key)
    return build_model(entry.kind, entry.params(), dim, generator, freeze_batch_norm, weights)
