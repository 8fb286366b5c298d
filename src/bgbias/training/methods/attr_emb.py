"""Attribution regularisation of the embedding: what the attribution score measures, trained on (docs/methods.md, sections 3 and
4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bgbias.training.methods._attribution_penalty import AttributionPenalty, PenaltyParams, fraction_outside

if TYPE_CHECKING:
    from torch import Tensor

    from bgbias.settings import Strict

TITLE = "Attribution of embedding"
PLACE = 8
ENTRIES = {"attr_emb_8": "Attribution of embedding, 8 photos"}
NEEDS = frozenset({"masks"})
TRAINS = True
Params = PenaltyParams


class Method(AttributionPenalty):
    """Penalty: mean over photos of sum (1 - M) g^2 / sum g^2, g the gradient of the distance to a black photo's embedding.

    The distance is cosine whatever the loss: for unit vectors the gradient of the Euclidean one is the same times a number of
    each photo's own, which a photo's fraction does not see.
    """

    alone = True

    @classmethod
    def photos_a_step(cls, params: Strict, batch_size: int) -> tuple[int, int]:
        """The black photo beside all others."""
        forward, backward = super().photos_a_step(params, batch_size)
        return forward + 1, backward

    def explained(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """The sum of the photos' cosines with the black photo, embedded by the model as it is now."""
        from bgbias.attribution.smoothgrad import reference_embedding

        return (embeddings @ reference_embedding(self.model)).sum()

    def penalty(self, gradients: Tensor, masks: Tensor) -> Tensor:
        """Scalar, of gradients [B, 3, S, S] and masks [B, 1, S, S]."""
        return fraction_outside(gradients, masks)
