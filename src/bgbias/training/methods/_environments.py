"""DCML's environments: every training photo's weight in each of k re-weighted training sets (docs/methods.md, section 5).

Re-weighting changes which backgrounds go with which class. Learned environments are those in which the present class weights and
attention are farthest from the best (eq. 11 of Deng & Zhang, ICML 2022).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator

import torch
from torch import Tensor, nn

from bgbias.compute import optimizers

# A batch's rows in the training table [B] and, an environment, its photos' gradients, [B, any size] each.
Gradients = tuple[Tensor, list[list[Tensor]]]


def batch_weights(logits: Tensor) -> Tensor:
    """Weights [B, k] that add up to 1 over the batch in each environment, of logits [B, k].

    Before that, a photo's weights w add up to 1 over environments; w / sum of w is the softmax of log w, which cannot be 0 / 0.
    """
    return logits.log_softmax(1).softmax(0)


class Environments(nn.Module):
    """One logit a training photo and environment: state of the training, but changed by ``learn`` alone."""

    logits: Tensor

    def __init__(self, photos: int, count: int) -> None:
        super().__init__()
        self.register_buffer("logits", torch.zeros(photos, count))

    def weights(self, index: Tensor) -> Tensor:
        """The weights [B, k] of the photos in rows ``index`` of the training table, within their batch."""
        return batch_weights(self.logits[index])

    def draw(self, generator: torch.Generator) -> None:
        """Forget what was learned: logits from N(0, 1), by a CPU generator."""
        self.logits.copy_(torch.randn(self.logits.shape, generator=generator))

    def learn(self, passes: Iterable[Callable[[], Iterator[Gradients]]], lr: float) -> list[float]:
        """Climb, by Adam, from where the logits are; the objective's mean over each pass.

        The objective is the mean over environments of the squared norms of their gradients, which are those of the photos,
        weighted. What stands after the pass with the highest mean is kept, as the released code means to.
        """
        logits = self.logits.clone().requires_grad_()
        optimizer = optimizers.Adam([logits], lr=lr, maximize=True)
        reached: list[float] = []
        for batches in passes:
            values = []
            for index, gradients in batches():
                value = objective(batch_weights(logits[index]), gradients)
                optimizer.zero_grad()
                value.backward()
                optimizer.step()
                values.append(value.item())
            reached.append(math.fsum(values) / len(values))
            if reached[-1] == max(reached):
                self.logits.copy_(logits.detach())
        return reached


def objective(weights: Tensor, gradients: list[list[Tensor]]) -> Tensor:
    """Mean over environments of the squared norms of their gradients, a scalar; ``weights`` [B, k]."""
    norms = [
        sum((weights[:, j] @ rows).square().sum() for rows in of_environment)
        for j, of_environment in enumerate(gradients)
    ]
    return torch.stack([torch.as_tensor(norm) for norm in norms]).mean()
