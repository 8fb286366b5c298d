"""Attribution regularisation of the loss: its gradient must be small wherever there is no object (docs/methods.md, section 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from bgbias.training.methods._attribution_penalty import AttributionPenalty, PenaltyParams

if TYPE_CHECKING:
    from torch import Tensor

TITLE = "Attribution of loss"
PLACE = 6
ENTRIES = {"attr_loss_8": "Attribution of loss, 8 photos"}
NEEDS = frozenset({"masks"})
TRAINS = True


class Params(PenaltyParams):
    """Gradients by pixel are small, and their scale is that of the backbone's normalised photos: so is the weight's."""

    weight: float = Field(ge=0, description="lambda")


class Method(AttributionPenalty):
    """Penalty: mean over photos of sum ((1 - M) g)^2, g the gradient of the base loss with respect to the photo."""

    def penalty(self, gradients: Tensor, masks: Tensor) -> Tensor:
        """Scalar, of gradients [B, 3, S, S] and masks [B, 1, S, S]."""
        return ((1 - masks) * gradients).square().sum((1, 2, 3)).mean()
