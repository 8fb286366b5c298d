"""Patch-based non-semantic negatives: each photo is kept away from itself, cut into windows and tiled ("Robust contrastive
learning using negative samples with diminished semantics", Ge et al. 2021; docs/methods.md, section 6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field, model_validator

from bgbias.training.methods._negatives import NegativeParams, WithNegatives

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from bgbias.training.batches import Batch

TITLE = "Patches as negatives"
PLACE = 17
NEEDS: frozenset[str] = frozenset()
TRAINS = True
REPELS = True


class Params(NegativeParams):
    """Beside the weights of these negatives the sides of their windows, as published."""

    smallest: int = Field(16, ge=1, le=224, description="least side of a window, in a photo of 224 pixels")
    largest: int = Field(72, ge=1, le=224, description="greatest side of a window")

    @model_validator(mode="after")
    def _in_order(self) -> Params:
        if self.smallest > self.largest:
            raise ValueError(f"smallest is {self.smallest}, largest {self.largest}: exchange them")
        return self


class Method(WithNegatives):
    """Windows of the photo as the model sees it."""

    params: Params

    def negatives(self, batch: Batch, photos: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Each photo tiled with windows of its own; all count."""
        from bgbias.training import tiles

        pictures = tiles.patches(photos, self.params.smallest, self.params.largest, generator)
        return pictures, batch.labels >= 0
