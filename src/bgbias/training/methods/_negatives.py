"""What methods with negatives of no class share: each photo is kept away from a picture that has its texture or its background,
and no object (docs/methods.md, section 6)."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from bgbias import seeds
from bgbias.settings import Strict
from bgbias.training.methods import BaseMethod

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    from bgbias.models.model import EmbeddingModel
    from bgbias.training.batches import Batch
    from bgbias.training.methods import Task


class NegativeParams(Strict):
    """How much, from which pictures, and what learns from them."""

    kappa: float = Field(1.0, ge=0, description="weight of these negatives; 0: there are none")
    alpha: float = Field(
        1.0,
        ge=0,
        description="by which similarities to them are multiplied in an exponent, of losses that have one; 0: there are none",
    )
    scope: Literal["own", "all"] = Field(
        "own", description="an anchor's negatives: the one of its own photo, or those of the whole batch"
    )
    ns_grad: bool = Field(
        False,
        description="whether the network learns from these negatives' places too, not only from the anchors'",
    )


class WithNegatives(BaseMethod):
    """The base loss, with pictures of no class as further negatives."""

    params: NegativeParams

    def __init__(
        self, model: EmbeddingModel, base_loss: nn.Module, params: Any = None, task: Task | None = None
    ) -> None:
        super().__init__(model, base_loss, params, task)
        if task is None or task.repelled is None:
            raise ValueError(
                "further negatives need a loss that says what they are to it (training/repulsions/)"
            )
        self.repelled = task.repelled

    @classmethod
    def photos_a_step(cls, params: Strict, batch_size: int) -> tuple[int, int]:
        """The batch and, if they count, its negatives, which go backward if the network learns from them."""
        assert isinstance(params, NegativeParams)
        forward = batch_size * (1 + _has_negatives(params))
        return forward, forward if params.ns_grad else batch_size

    def negatives(self, batch: Batch, photos: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """A picture for each photo, normalised [B, 3, S, S], and which of them count, bool [B].

        ``photos``: the batch's as the model sees them; ``generator``: of the processor.
        """
        raise NotImplementedError(type(self))

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """``loss`` and, beside it, ``base_loss``."""
        import torch

        from bgbias.models.norms import learning_nothing

        photos = self.photos(batch)
        embeddings = self.model(photos)
        if not _has_negatives(self.params):
            return {"loss": self.base_loss(embeddings, batch.labels)}
        # The photos of a batch are drawn by seed, epoch and step; they in turn say what is drawn for them.
        generator = seeds.torch_generator("non-semantic negatives", *batch.index.tolist())
        pictures, counts = self.negatives(batch, photos, generator)
        with nullcontext() if self.params.ns_grad else torch.no_grad(), learning_nothing(self.model):
            further = self.model(pictures)
        with torch.autocast(embeddings.device.type, enabled=False):
            return self._with(embeddings, batch.labels, further, counts)

    def _with(self, embeddings: Tensor, labels: Tensor, further: Tensor, counts: Tensor) -> dict[str, Tensor]:
        from bgbias.training.repulsions import Further

        own = self.params.scope == "own"
        shown = further[:, None] if own else further.expand(len(further), -1, -1)
        used = counts[:, None] if own else counts.expand(len(counts), -1)
        made = Further(shown, used, self.params.kappa, self.params.alpha)
        loss = self.repelled(self.base_loss, embeddings, labels, made)
        return {"loss": loss, "base_loss": self.base_loss(embeddings.detach(), labels)}


def _has_negatives(params: NegativeParams) -> bool:
    return bool(params.kappa and params.alpha)
