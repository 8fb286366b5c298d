"""Training as usual: original photos (the baseline of Kobs & Hotho 2022)."""

from pydantic import Field

from bgbias.compute.lazy import Tensor
from bgbias.settings import Strict
from bgbias.training.methods import BaseMethod, Batch

TITLE = "Plain"
PLACE = 2  # of its entries; it stands above all
ENTRIES = {"plain_4": "4 photos a class"}
NEEDS: frozenset[str] = frozenset()
TRAINS = True


class Params(Strict):
    """How batches are drawn; a method with batches of its own is to be compared with plain training on such."""

    images_per_class: int | None = Field(None, ge=1, description="in a batch; the loss's own number if null")


class Method(BaseMethod):
    """The base loss on the photos' embeddings."""

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        return {"loss": self.base_loss(self.model(self.photos(batch)), batch.labels)}
