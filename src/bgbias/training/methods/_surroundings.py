"""Negatives of background alone: each photo is kept away from what stands around its object (docs/methods.md, section 6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from bgbias.training.methods._negatives import NegativeParams, WithNegatives

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from bgbias.training.batches import Batch

SMALLEST, LARGEST = 16, 48  # sides of the windows that cover an object, in a photo of 224 pixels


class Surroundings(WithNegatives):
    """The photo with windows of its surroundings over its object. A replaced background is the negative itself.

    A photo of which all is object or nothing is, or whose mask is not trusted, has no such negative.
    """

    params: NegativeParams
    BOX: ClassVar[bool]
    """Whether the box around the object is covered, or its outline."""

    def negatives(self, batch: Batch, photos: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """The photos' backgrounds."""
        from bgbias.training import tiles

        if batch.masks is None:
            raise ValueError("negatives of background alone need batches with masks")
        if self.replaces_backgrounds:
            assert batch.backgrounds is not None
            inside = (batch.masks > 0.5).flatten(1)
            return self.model.preprocess(batch.backgrounds), inside.any(1) & ~inside.all(1)
        return tiles.without_objects(photos, batch.masks, SMALLEST, LARGEST, self.BOX, generator)
