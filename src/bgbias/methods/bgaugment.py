"""BGAugment: every training photo's object stands before a random background (Kobs & Hotho 2022; METHODS section 2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bgbias.composite import replaced
from bgbias.methods import BaseMethod

if TYPE_CHECKING:
    from torch import Tensor

    from bgbias.batches import Batch

NEEDS = frozenset({"masks", "backgrounds"})
TRAINS = True


class Method(BaseMethod):
    """The base loss on photos whose backgrounds were replaced, afresh at every step."""

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """Scalar ``loss`` after replacement; a batch without masks or backgrounds is a programming error."""
        if batch.masks is None or batch.backgrounds is None:
            raise ValueError("bgaugment needs batches with masks and backgrounds")
        photos = replaced(batch.images, batch.masks, batch.backgrounds)
        embeddings = self.model(self.model.preprocess(photos))
        return {"loss": self.base_loss(embeddings, batch.labels)}
