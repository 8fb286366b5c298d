"""Texture-based non-semantic negatives: each photo is kept away from a texture of two of its windows ("Robust contrastive
learning using negative samples with diminished semantics", Ge et al. 2021; docs/methods.md, section 6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bgbias.training.methods._negatives import NegativeParams, WithNegatives

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from bgbias.training.batches import Batch

TITLE = "Textures as negatives"
PLACE = 18
NEEDS = frozenset({"textures"})
TRAINS = True
REPELS = True
Params = NegativeParams


class Method(WithNegatives):
    """Textures that were quilted of the photos as they are, in their photos' crops."""

    def negatives(self, batch: Batch, photos: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Each photo's texture; all count."""
        if batch.textures is None:
            raise ValueError("textures as negatives need batches with textures")
        return self.model.preprocess(batch.textures), batch.labels >= 0
