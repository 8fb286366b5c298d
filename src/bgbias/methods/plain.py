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
        return {"loss": self.base_loss(self.model(self.photos(batch)), batch.labels)}
