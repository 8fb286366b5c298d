"""A method with everything that one may have: options, a neck, parts and parameters of its own, and passes over all photos."""

from typing import Any

import torch
from torch import Tensor, nn

from bgbias import plugins, seeds
from bgbias.models.model import EmbeddingModel
from bgbias.settings import Strict
from bgbias.training.methods import BaseMethod, Batch, Passes, Task

NEEDS: frozenset[str] = frozenset()
TRAINS = True


class Params(Strict):
    rate: float = 0.01
    noise: float = 0.0


class Method(BaseMethod):
    """Its offset of every photo is learned from brightness in one pass, its gains with the model; both start at random."""

    def __init__(self, model: EmbeddingModel, base_loss: nn.Module, params: Params, task: Task) -> None:
        super().__init__(model, base_loss)
        self.params, self.task = params, task
        channels = model.embedder.in_features
        self.neck = model.add_neck("gains", plugins.load("necks", "gains").Params(channels=channels))
        self.own = nn.Module()
        drawn = torch.rand(len(task.labels), generator=seeds.torch_generator("gained", *task.key))
        self.own.register_buffer("offsets", drawn)
        self.own.gain = nn.Parameter(torch.ones(()))

    def start_epoch(self, epoch: int, passes: Passes) -> None:
        for batch in passes("brightness", 7):
            seen = self.photos(batch).mean((1, 2, 3)) / (1 + epoch)
            self.own.offsets[batch.index] = 0.5 * self.own.offsets[batch.index] + seen  # type: ignore[index, operator]

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        features = self.neck(self.model.features(self.photos(batch)))
        added = self.own.offsets[batch.index, None, None, None]  # type: ignore[index]
        embeddings = self.model.embed_features(features * self.own.gain + added)
        return {"loss": self.base_loss(embeddings, batch.labels)}

    def modules(self) -> dict[str, nn.Module]:
        return super().modules() | {"own": self.own}

    def own_parameters(self, lr: float) -> list[dict[str, Any]]:
        parameters = [*self.neck.parameters(), *self.own.parameters()]
        return [{"params": parameters, "lr": self.params.rate}]

    def end_epoch(self) -> None:
        with torch.no_grad():
            self.neck.gains.mul_(0.9)  # type: ignore[operator, union-attr]
