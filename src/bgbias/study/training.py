"""What training a cell takes: every name of params.yaml resolved to what stands behind it, once."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING

from bgbias import plugins, seeds
from bgbias.settings import Strict
from bgbias.study import plan
from bgbias.study.cell import Cell
from bgbias.study.methods import NamedMethod
from bgbias.study.params import Study, loss_options, options
from bgbias.training.settings import Train

if TYPE_CHECKING:
    import numpy as np
    from torch import nn

    from bgbias.models.model import EmbeddingModel
    from bgbias.training.methods import BaseMethod, Task


@dataclass(frozen=True)
class Training:
    """All that training one cell takes, resolved once. ``needs``: what it reads beside photos, for training or for selection;
    ``condition``: the validation photos that stop and pick, ``clean`` or ``corrupted``.
    """

    cell: Cell
    settings: Train
    method: NamedMethod
    loss: ModuleType
    loss_params: Strict
    needs: frozenset[str]
    condition: str

    @property
    def loss_rate(self) -> float | None:
        """The learning rate of the loss's own class weights, where it sets one."""
        return getattr(self.loss_params, "lr", None)

    def build(self, model: EmbeddingModel, labels: np.ndarray) -> BaseMethod:
        """The method around a model, with its loss for the classes of these labels, int [N] from 0."""
        import torch

        from bgbias.training.methods import Task

        key, classes = (self.cell.dataset, self.cell.loss, self.cell.run), int(labels.max()) + 1

        def loss_of(width: int, *purpose: object) -> nn.Module:
            weights = seeds.torch_generator("loss", *key, *purpose)
            return self.loss.build(self.loss_params, classes, width, weights)  # type: ignore[no-any-return]

        def wider(width: int) -> nn.Module:
            return loss_of(width, "width", width)

        loss, names = loss_of(self.settings.embedding_dim), (self.cell.dataset, self.cell.run)
        repelled = plugins.load("repulsions", self.cell.loss).loss if self.method.repels else None
        task = Task(torch.from_numpy(labels), names, wider, self.loss_rate, repelled)
        return around(self.method, model, loss, task)


def around(named: NamedMethod, model: EmbeddingModel, base_loss: nn.Module, task: Task) -> BaseMethod:
    method: BaseMethod = named.module.Method(model, base_loss, named.params(), task)
    method.replaces_backgrounds |= named.replaces
    return method


def resolve(study: Study, cell: Cell) -> Training:
    return Training(
        cell,
        study.train,
        plan.method(study, cell),
        plugins.load("losses", cell.loss),
        options(study, "losses", cell.loss, loss_options(study, cell.dataset, cell.loss)),
        plan.needs(study, cell),
        plan.selection_condition(study, cell),
    )
