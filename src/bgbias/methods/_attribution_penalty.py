"""What the attribution regularisers share: a penalty on gradients that fall beside the object (METHODS section 4).

Modelled on "right for the right reasons" (Ross et al., IJCAI 2017). The gradient with respect to the photos is part of what is
minimised, so that training differentiates twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from bgbias.methods import BaseMethod, Task

if TYPE_CHECKING:
    from torch import Tensor, nn

    from bgbias.batches import Batch
    from bgbias.model import EmbeddingModel

TINY = 1e-12  # keeps a fraction of nothing finite


class Weighted(Protocol):
    """Options of a method with a penalty."""

    @property
    def weight(self) -> float:
        """The penalty's factor (lambda)."""


class AttributionPenalty(BaseMethod):
    """The base loss plus ``weight`` times a penalty on the photos' gradients; masks tell where the object is.

    The penalty has a pass of its own, in float32 whatever the training's precision, with batch norm as in evaluation: a photo's
    gradient must not depend on its neighbours' pixels. The base loss is that of ``plain``, so that a weight of 0 trains the
    same model bit for bit. A photo without a trusted mask is all object and has no penalty.
    """

    def __init__(
        self, model: EmbeddingModel, base_loss: nn.Module, params: Weighted, task: Task | None = None
    ) -> None:
        super().__init__(model, base_loss)
        self.weight = params.weight

    def explained(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """The scalar whose gradient with respect to the photos counts."""
        return self.base_loss(embeddings, labels)

    def penalty(self, gradients: Tensor, masks: Tensor) -> Tensor:
        """The scalar to add, of gradients [B, 3, S, S] and masks [B, 1, S, S]."""
        raise NotImplementedError(type(self))

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """Scalar ``loss``, and its parts ``base_loss`` and ``penalty``; a batch without masks is a programming error."""
        if batch.masks is None:
            raise ValueError("a penalty beside the object needs batches with masks")
        photos = self.photos(batch)
        base = self.base_loss(self.model(photos), batch.labels)
        penalty = self.penalty(self.gradients(photos, batch.labels), batch.masks)
        return {"loss": base + self.weight * penalty, "base_loss": base, "penalty": penalty}

    def gradients(self, photos: Tensor, labels: Tensor) -> Tensor:
        """Of ``explained`` with respect to normalised photos, like them; they can be differentiated again."""
        import torch

        from bgbias.second_derivatives import differentiable_twice

        with differentiable_twice(self.model):
            seen = photos.detach().requires_grad_()
            explained = self.explained(self.model(seen), labels)
            return torch.autograd.grad(explained, seen, create_graph=True)[0]


def fraction_outside(gradients: Tensor, masks: Tensor) -> Tensor:
    """Mean over photos of sum (1 - M) g^2 / sum g^2, in 0..1: it does not change with the gradients' scale."""
    squares = gradients.square()
    outside = ((1 - masks) * squares).sum((1, 2, 3))
    return (outside / (squares.sum((1, 2, 3)) + TINY)).mean()
