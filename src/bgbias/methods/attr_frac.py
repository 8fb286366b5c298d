"""Attribution regularisation, free of scale: the share of the loss's gradient beside the object (METHODS section 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from bgbias.methods._attribution_penalty import AttributionPenalty, fraction_outside
from bgbias.strict import Strict

if TYPE_CHECKING:
    from torch import Tensor

NEEDS = frozenset({"masks"})
TRAINS = True


class Params(Strict):
    """The penalty lies in 0..1."""

    weight: float = Field(1.0, ge=0, description="lambda")


class Method(AttributionPenalty):
    """Penalty: mean over photos of sum (1 - M) g^2 / sum g^2, g the gradient of the base loss with respect to the photo."""

    def penalty(self, gradients: Tensor, masks: Tensor) -> Tensor:
        """Scalar, of gradients [B, 3, S, S] and masks [B, 1, S, S]."""
        return fraction_outside(gradients, masks)
