"""How a batch becomes a training loss: the plain way, and the cures for background bias.

A method is one file: ``NEEDS`` (what its batches carry beside photos), ``TRAINS``, and ``class Method``. Planning reads the
facts of every method, so these files import torch only for type checking or inside functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor, nn

    from bgbias.batches import Batch
    from bgbias.model import EmbeddingModel


class BaseMethod:
    """What training asks of a method; one with parts of its own (attention nets, environments) overrides the last three."""

    def __init__(self, model: EmbeddingModel, base_loss: nn.Module) -> None:
        self.model, self.base_loss = model, base_loss

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """The scalar to minimise under ``loss``; further entries are logged beside it."""
        raise NotImplementedError(type(self))

    def modules(self) -> dict[str, nn.Module]:
        """Everything that training changes, by name: trained, checkpointed and restored."""
        return {"model": self.model, "loss": self.base_loss}

    def own_parameters(self) -> list[dict[str, Any]]:
        """Optimiser groups beyond the model's and the loss's."""
        return []

    def start_epoch(self, epoch: int) -> None:
        """Called before each epoch, for methods that alternate between training and something else."""
