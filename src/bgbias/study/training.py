"""A cell's method with its loss around a model: what training goes on with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bgbias import plugins, seeds
from bgbias.compute.lazy import nn, torch
from bgbias.study import plan
from bgbias.study.cell import Cell
from bgbias.study.methods import NamedMethod
from bgbias.study.params import Study
from bgbias.training.methods import BaseMethod, Task

if TYPE_CHECKING:
    from bgbias.models.model import EmbeddingModel


def build_method(study: Study, cell: Cell, model: EmbeddingModel, labels: np.ndarray) -> BaseMethod:
    """The method of a cell around a model, with its loss for the classes of these labels, int [N] from 0."""
    method, params = plan.method(study, cell), plan.loss_params(study, cell)
    key, classes = (cell.dataset, cell.loss, cell.run), int(labels.max()) + 1

    def loss_of(width: int, *purpose: object) -> nn.Module:
        weights = seeds.torch_generator("loss", *key, *purpose)
        return plugins.load("losses", cell.loss).build(params, classes, width, weights)  # type: ignore[no-any-return]

    def wider(width: int) -> nn.Module:
        return loss_of(width, "width", width)

    loss, names = loss_of(study.train.embedding_dim), (cell.dataset, cell.run)
    repelled = plugins.load("repulsions", cell.loss).loss if method.repels else None
    task = Task(torch.from_numpy(labels), names, wider, getattr(params, "lr", None), repelled)
    return around(method, model, loss, task)


def around(entry: NamedMethod, model: EmbeddingModel, base_loss: nn.Module, task: Task) -> BaseMethod:
    method: BaseMethod = entry.module.Method(model, base_loss, entry.params(), task)
    method.replaces_backgrounds |= entry.replaces
    return method
