"""Attribution regularisation: a penalty on gradients that fall beside the object (docs/methods.md, section 4).

Modelled on "right for the right reasons" (Ross et al., IJCAI 2017). The gradient with respect to the photos is part of what is
minimised, so that training differentiates twice.
"""

from collections.abc import Sequence

from pydantic import Field

from bgbias.compute.lazy import Tensor, torch
from bgbias.settings import Strict
from bgbias.training.methods import BaseMethod, Batch

NEEDS = frozenset({"masks"})
TRAINS = True
TINY = 1e-12  # keeps a fraction of nothing finite


def spread_rows(photos: int, limit: int | None) -> list[int]:
    """Rows of so many photos of a batch (all if None), evenly: photos of a class stand side by side in it."""
    count = min(limit or photos, photos)
    return [n * photos // count for n in range(count)]


def fraction_outside(gradients: Tensor, masks: Tensor) -> Tensor:
    """Mean over photos of sum (1 - M) g^2 / sum g^2, in 0..1: it does not change with the gradients' scale."""
    squares = gradients.square()
    outside = ((1 - masks) * squares).sum((1, 2, 3))
    return (outside / (squares.sum((1, 2, 3)) + TINY)).mean()


class PenaltyParams(Strict):
    """Options of a method with a penalty that lies in 0..1."""

    weight: float = Field(1.0, ge=0, description="lambda")
    photos: int | None = Field(None, ge=1, description="of a batch, evenly spread; all if null")


class LossParams(PenaltyParams):
    """Gradients by pixel are small, and their scale is that of the backbone's normalised photos: so is the weight's."""

    weight: float = Field(ge=0, description="lambda")


class AttributionPenalty(BaseMethod):
    """The base loss plus ``weight`` times a penalty on the photos' gradients; masks tell where the object is.

    Penalty: mean over photos of sum (1 - M) g^2 / sum g^2, g the gradient of the base loss with respect to the photo, unless
    ``explain`` and ``penalty`` say another one.

    The penalty has a pass of its own, in float32 whatever the training's precision, with batch norm as in evaluation: a photo's
    gradient must not depend on its neighbours' pixels. The base loss is that of ``plain``, so that a weight of 0 trains the
    same model bit for bit. A photo without a trusted mask is all object and has no penalty.

    It costs many times what the loss does. Of fewer ``photos`` it is an estimate: each one's gradient stays what it is in the
    whole batch, but the others' embeddings count as constants. These come from a pass like the penalty's own, without gradients.
    """

    params: PenaltyParams
    alone = False
    """Whether ``explain`` compares no photos of a batch with each other, so that the others need no pass."""

    def prepare(self) -> None:
        """The second derivative is taken in training's backward pass. With no weight, the model is to be plain's."""
        self.weight = self.params.weight
        self.full_precision = self.weight > 0

    @classmethod
    def photos_a_step(cls, params: PenaltyParams, batch_size: int) -> tuple[int, int]:
        """The batch, and once more: the penalised photos with, the others without gradients."""
        penalised = min(params.photos or batch_size, batch_size)
        return batch_size + (penalised if cls.alone else batch_size), batch_size + penalised

    def explain(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """The scalar whose gradient with respect to the photos counts."""
        return self.base_loss(embeddings, labels)

    def penalty(self, gradients: Tensor, masks: Tensor) -> Tensor:
        """The scalar to add, of gradients [B, 3, S, S] and masks [B, 1, S, S]."""
        return fraction_outside(gradients, masks)

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """Scalar ``loss``, and its parts ``base_loss`` and ``penalty``; a batch without masks is a programming error."""
        if batch.masks is None:
            raise ValueError("a penalty beside the object needs batches with masks")
        photos = self.photos(batch)
        embeddings = self.model(photos)
        base = self.base_loss(embeddings, batch.labels)
        rows = spread_rows(len(photos), self.params.photos)
        penalty = self.penalty(self.gradients(photos, batch.labels, rows), batch.masks[rows])
        return {"loss": base + self.weight * penalty, "base_loss": base, "penalty": penalty}

    def gradients(self, photos: Tensor, labels: Tensor, rows: Sequence[int]) -> Tensor:
        """Of what ``explain`` gives with respect to these rows of the normalised photos [B, 3, S, S], like them.

        They can be differentiated again; the other photos' embeddings are constants.
        """
        from bgbias.models.derivatives import differentiable_twice

        others = [] if self.alone else [row for row in range(len(photos)) if row not in set(rows)]
        with differentiable_twice(self.model):
            inputs = photos[rows].detach().requires_grad_()
            embeddings = self.model(inputs)
            if others:
                with torch.no_grad():
                    constant = self.model(photos[others])
                embeddings = torch.cat((embeddings, constant))
            value = self.explain(embeddings, labels[[*rows, *others]])
            return torch.autograd.grad(value, inputs, create_graph=True)[0]


class OfLoss(AttributionPenalty):
    """Penalty: mean over photos of sum ((1 - M) g)^2, g the gradient of the base loss with respect to the photo."""

    def penalty(self, gradients: Tensor, masks: Tensor) -> Tensor:
        return ((1 - masks) * gradients).square().sum((1, 2, 3)).mean()


class OfEmbedding(AttributionPenalty):
    """Penalty: mean over photos of sum (1 - M) g^2 / sum g^2, g the gradient of the distance to a black photo's embedding.

    The distance is cosine whatever the loss: for unit vectors the gradient of the Euclidean one is the same times a number of
    each photo's own, which a photo's fraction does not see.
    """

    alone = True

    @classmethod
    def photos_a_step(cls, params: PenaltyParams, batch_size: int) -> tuple[int, int]:
        """The black photo beside all others."""
        forward, backward = super().photos_a_step(params, batch_size)
        return forward + 1, backward

    def explain(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """The sum of the photos' cosines with the black photo, embedded by the model as it is now."""
        from bgbias.attribution.smoothgrad import reference_embedding

        return (embeddings @ reference_embedding(self.model)).sum()


MEMBERS = {
    "attr_loss": {
        "__doc__": "Attribution regularisation of the loss: its gradient must be small wherever there is no object.",
        "TITLE": "Attribution of loss",
        "PLACE": 6,
        "ENTRIES": {"attr_loss_8": "Attribution of loss, 8 photos"},
        "Params": LossParams,
        "Method": OfLoss,
    },
    "attr_frac": {
        "__doc__": "Attribution regularisation, free of scale: the share of the loss's gradient beside the object.",
        "TITLE": "Attribution fraction",
        "PLACE": 7,
        "ENTRIES": {"attr_frac_8": "Attribution fraction, 8 photos"},
        "Params": PenaltyParams,
        "Method": AttributionPenalty,
    },
    "attr_emb": {
        "__doc__": "Attribution regularisation of the embedding: what the attribution score measures, trained on.",
        "TITLE": "Attribution of embedding",
        "PLACE": 8,
        "ENTRIES": {"attr_emb_8": "Attribution of embedding, 8 photos"},
        "Params": PenaltyParams,
        "Method": OfEmbedding,
    },
}
