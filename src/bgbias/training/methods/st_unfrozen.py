"""Plain training whose batch norms learn their statistics, as those of MDProp do: a control (docs/methods.md, section 8)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from bgbias.training.methods._adversarial import NormParams, Standard

if TYPE_CHECKING:
    from torch import nn

    from bgbias.models.model import EmbeddingModel
    from bgbias.training.methods import Task

TITLE = "Plain, batch norm trained"
PLACE = 11
NEEDS: frozenset[str] = frozenset()
TRAINS = True


class Params(NormParams):
    """How batches are drawn."""

    batch_norm: Literal["trained"] = Field("trained", description="what the method is for")


def needs_batch_norm(params: Params) -> bool:
    """It is about nothing else."""
    return True


class Method(Standard):
    """The base loss of the batch."""

    def __init__(
        self, model: EmbeddingModel, base_loss: nn.Module, params: Any = None, task: Task | None = None
    ) -> None:
        from bgbias.models.norms import batch_norms

        batch_norms(model)
        super().__init__(model, base_loss, params, task)
