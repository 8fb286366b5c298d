"""Training as usual: photos as they are (the baseline of Kobs & Hotho 2022)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bgbias.methods import BaseMethod

if TYPE_CHECKING:
    from torch import Tensor

    from bgbias.batches import Batch

NEEDS: frozenset[str] = frozenset()
TRAINS = True


class Method(BaseMethod):
    """The base loss on the photos' embeddings."""

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """Scalar ``loss`` of the batch."""
        embeddings = self.model(self.model.preprocess(batch.images))
        return {"loss": self.base_loss(embeddings, batch.labels)}
