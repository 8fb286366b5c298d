"""Negatives of no class: each photo is kept away from a picture that has its texture or its background, and no object
(docs/methods.md, section 6; patches and textures after "Robust contrastive learning using negative samples with diminished
semantics", Ge et al. 2021)."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, ClassVar, Literal

from pydantic import Field

from bgbias import seeds
from bgbias.compute.lazy import Tensor, torch
from bgbias.settings import Strict
from bgbias.training import patch_negatives
from bgbias.training.methods import BaseMethod, Batch, Task
from bgbias.training.repulsions import Further

TRAINS = True
REPELS = True


class NegativeParams(Strict):
    """How much, from which pictures, and what learns from them."""

    kappa: float = Field(1.0, ge=0, description="weight of these negatives; 0: there are none")
    alpha: float = Field(
        1.0,
        ge=0,
        description="by which similarities to them are multiplied in an exponent, of losses that have one; 0: there are none",
    )
    scope: Literal["own", "all"] = Field("own", description="its own photo's, or the whole batch's")
    ns_grad: bool = Field(False, description="learn from these negatives' places, too")

    @property
    def count(self) -> bool:
        """Whether there are such negatives."""
        return bool(self.kappa and self.alpha)


class PatchParams(NegativeParams, patch_negatives.Sides):
    """Beside the weights of these negatives the sides of their windows."""


class WithNegatives(BaseMethod):
    """The base loss, with pictures of no class as further negatives."""

    KIND: ClassVar[str]
    """One of ``patch_negatives.NEEDS``."""
    params: NegativeParams
    task: Task

    @classmethod
    def photos_a_step(cls, params: NegativeParams, batch_size: int) -> tuple[int, int]:
        """The batch and, if they count, its negatives, which go backward if the network learns from them."""
        forward = batch_size * (1 + params.count)
        return forward, forward if params.ns_grad else batch_size

    def negatives(self, batch: Batch, photos: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """A picture for each photo, normalised [B, 3, S, S], and which of them count, bool [B].

        A replaced background is the negative itself. A photo of which all is object or nothing is, or whose mask is not
        trusted, has no negative of its surroundings. ``photos``: the batch's as the model sees them; ``generator``: of the
        processor.
        """
        if self.replaces_backgrounds and "masks" in patch_negatives.NEEDS[self.KIND]:
            assert batch.masks is not None
            assert batch.backgrounds is not None
            inside = (batch.masks > 0.5).flatten(1)
            return self.model.preprocess(batch.backgrounds), inside.any(1) & ~inside.all(1)
        return patch_negatives.make(self.KIND, photos, batch, self.model.preprocess, self.params, generator)

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        from bgbias.models.norms import learning_nothing

        photos = self.photos(batch)
        embeddings = self.model(photos)
        if not self.params.count:
            return {"loss": self.base_loss(embeddings, batch.labels)}
        # The photos of a batch are drawn by seed, epoch and step; they in turn say what is drawn for them.
        generator = seeds.torch_generator("non-semantic negatives", *batch.index.tolist())
        pictures, counts = self.negatives(batch, photos, generator)
        with nullcontext() if self.params.ns_grad else torch.no_grad(), learning_nothing(self.model):
            further = self.model(pictures)
        labels = batch.labels
        with torch.autocast(embeddings.device.type, enabled=False):
            is_own = self.params.scope == "own"
            vectors = further[:, None] if is_own else further.expand(len(further), -1, -1)
            counted = counts[:, None] if is_own else counts.expand(len(counts), -1)
            negatives = Further(vectors, counted, self.params.kappa, self.params.alpha)
            assert self.task.repelled is not None  # study/methods.py refuses a loss that says nothing of them
            loss = self.task.repelled(self.base_loss, embeddings, labels, negatives)
            return {"loss": loss, "base_loss": self.base_loss(embeddings.detach(), labels)}


def _define(kind: str) -> dict[str, Any]:
    class Method(WithNegatives):
        KIND = kind

    return {"NEEDS": patch_negatives.NEEDS[kind], "Method": Method}


MEMBERS: dict[str, dict[str, Any]] = {
    "patch_ns": {
        "__doc__": "Patch-based non-semantic negatives: each photo is kept away from itself, cut into windows and tiled.",
        "TITLE": "Patches as negatives",
        "PLACE": 17,
        "Params": PatchParams,
        **_define("patches"),
    },
    "texture_ns": {
        "__doc__": "Texture-based non-semantic negatives: each photo is kept away from a texture of two of its windows.",
        "TITLE": "Textures as negatives",
        "PLACE": 18,
        "Params": NegativeParams,
        **_define("textures"),
    },
    "bgneg": {
        "__doc__": "Background-only negatives: each photo is kept away from itself with its surroundings over its object.",
        "TITLE": "Background as negative",
        "PLACE": 19,
        "Params": NegativeParams,
        **_define("surroundings"),
    },
    "bgneg_rect": {
        "__doc__": "Background-only negatives whose surroundings cover the box around the object.",
        "TITLE": "Background as negative, box",
        "PLACE": 20,
        "Params": NegativeParams,
        **_define("boxes"),
    },
}
