"""Attribution regularisation, free of scale: the share of the loss's gradient beside the object (docs/methods.md, section 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bgbias.training.methods._attribution_penalty import AttributionPenalty, PenaltyParams, fraction_outside

if TYPE_CHECKING:
    from torch import Tensor

TITLE = "Attribution fraction"
PLACE = 7
ENTRIES = {"attr_frac_8": "Attribution fraction, 8 photos"}
NEEDS = frozenset({"masks"})
TRAINS = True
Params = PenaltyParams


class Method(AttributionPenalty):
    """Penalty: mean over photos of sum (1 - M) g^2 / sum g^2, g the gradient of the base loss with respect to the photo."""

    def penalty(self, gradients: Tensor, masks: Tensor) -> Tensor:
        """Scalar, of gradients [B, 3, S, S] and masks [B, 1, S, S]."""
        return fraction_outside(gradients, masks)
