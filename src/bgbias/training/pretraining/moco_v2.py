"""MoCo v2: a view finds the other view of its photo among many, as the network's moving mean sees them (Chen et al. 2020), with
or without non-semantic negatives ("Robust contrastive learning using negative samples with diminished semantics", Ge et al. 2021;
docs/methods.md, section 6).
"""

from __future__ import annotations

from pydantic import Field

from bgbias.compute.lazy import F, Tensor, nn, torch
from bgbias.errors import UserError
from bgbias.training.methods import Batch
from bgbias.training.pretraining import BasePretraining, PretrainingParams

TITLE = "MoCo v2"


class Params(PretrainingParams):
    """Beside what every pretraining is told: the temperature, the teacher and the queue."""

    alpha: float = Field(2.0, ge=0, description="factor of similarities to negatives; 0: none")
    temperature: float = Field(0.2, gt=0, description="by which similarities are divided")
    queue: int = Field(16384, ge=1, description="views of earlier batches that a view is kept away from")
    keep: float = Field(0.99, ge=0, lt=1, description="share of its weights that the teacher keeps in a step")

    def check(self, photos: int) -> None:
        """A queue as long as the photos are many holds most views' own photo, from which they are then kept away."""
        super().check(photos)
        if self.queue >= photos:
            raise UserError(
                f"A queue of {self.queue} views is asked for, and there are {photos} photos to learn from: most views would be"
                f" kept away from others of their own photo. Set the pretraining's queue to a part of {photos} in params.yaml."
            )


class Pretraining(BasePretraining):
    """One view of every photo goes through the network, the other through the teacher and then into the queue.

    The queue begins empty. In the published code it begins with random vectors, from which a network without batch norm learns
    to make the same of all photos, since that is far from them all, and never recovers.
    """

    params: Params
    ASKS = 1

    def prepare(self) -> None:
        super().prepare()
        self.memory = nn.Module()
        self.memory.register_buffer("queue", torch.zeros(self.params.queue, self.params.dim))
        self.memory.register_buffer("entered", torch.zeros((), dtype=torch.int64))

    @classmethod
    def photos_a_step(cls, params: Params, batch_size: int) -> tuple[int, int]:
        """Both views, and the negatives of the first ones, which the teacher sees."""
        return batch_size * (2 + (params.active_negatives != "none")), batch_size

    def head(self, channels: int, purpose: str) -> nn.Module:
        return self.two_layers(channels, purpose, norm=False)

    def modules(self) -> dict[str, nn.Module]:
        return {**super().modules(), "memory": self.memory}

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """``loss``, the mean of ``info_nce``."""
        views, negatives, counts = self.views(batch)
        first, second = views.chunk(2)
        queries = self.online(first)
        self.follow(self.params.keep)
        keys = self.taught(second)
        further = None if negatives is None else self.taught(negatives)
        with torch.autocast(queries.device.type, enabled=False):
            queries = F.normalize(queries.float(), dim=1)
            near = None
            if further is not None and counts is not None:
                near = (queries * further).sum(1).where(counts, queries.new_tensor(-torch.inf))
            positive, queued = (queries * keys).sum(1), queries @ self._read_queue().T
            loss = info_nce(positive, queued, self.params.temperature, near, self.params.alpha)
        self._enqueue(keys)
        return {"loss": loss.mean()}

    def _read_queue(self) -> Tensor:
        queue, entered = (self.memory.get_buffer(name) for name in ("queue", "entered"))
        return queue[: int(entered)].clone()

    def _enqueue(self, keys: Tensor) -> None:
        queue, entered = (self.memory.get_buffer(name) for name in ("queue", "entered"))
        rows = (entered + torch.arange(len(keys), device=queue.device))[-len(queue) :] % len(queue)
        queue[rows] = keys[-len(queue) :].to(queue)
        entered += len(keys)


def info_nce(
    positive: Tensor, queued: Tensor, temperature: float, further: Tensor | None = None, alpha: float = 1.0
) -> Tensor:
    """``-log(e^(p/t) / (e^(p/t) + e^(alpha f/t) + sum e^(q/t)))``, [B]: of cosines ``positive`` [B] to the other view, ``queued``
    [B, K] to earlier ones, and ``further`` [B] to a negative of one's own, -inf where there is none (Ge et al. 2021, equation 1;
    without ``further`` Oord et al. 2018).
    """
    parts = [positive[:, None], queued] + ([] if further is None else [alpha * further[:, None]])
    return (torch.cat(parts, 1) / temperature).logsumexp(1) - positive / temperature
