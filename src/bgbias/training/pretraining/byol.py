"""BYOL: from one view the network foretells what its moving mean makes of the other (Grill et al., NeurIPS 2020), with or without
non-semantic negatives ("Robust contrastive learning using negative samples with diminished semantics", Ge et al. 2021;
docs/methods.md, section 6).
"""

from __future__ import annotations

import math

from pydantic import Field

from bgbias.compute.lazy import F, Tensor, nn, torch
from bgbias.training.methods import Batch
from bgbias.training.pretraining import BasePretraining, PretrainingParams

TITLE = "BYOL"


class Params(PretrainingParams):
    """Beside what every pretraining is told: the teacher."""

    alpha: float = Field(0.05, ge=0, description="weight of the distance to the negatives; 0: there are none")
    keep: float = Field(
        0.996,
        ge=0,
        lt=1,
        description="share of its weights that the teacher keeps in the first step; it rises to 1",
    )


class Pretraining(BasePretraining):
    """Both views go through the network and a predictor, and both through the teacher."""

    params: Params

    def prepare(self) -> None:
        super().prepare()
        self.heads["predictor"] = self.head(self.params.dim, "predictor")
        self.heads.register_buffer("step", torch.zeros((), dtype=torch.int64))

    @classmethod
    def photos_a_step(cls, params: Params, batch_size: int) -> tuple[int, int]:
        """Both views twice, and the negatives of both, which the teacher sees."""
        return batch_size * (4 + 2 * (params.active_negatives != "none")), 2 * batch_size

    def head(self, channels: int, purpose: str) -> nn.Module:
        return self.two_layers(channels, purpose, norm=True)

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """``loss``, the mean of ``distance`` over photos, of either view to the other together."""
        views, negatives, counts = self.views(batch)
        step = self.heads.get_buffer("step")
        self.follow(schedule_keep(self.params.keep, int(step), self.steps))
        step += 1
        predictions = self.heads["predictor"](self.online(views))
        first, second = self.taught(views).chunk(2)
        further = None if negatives is None else self.taught(negatives)
        with torch.autocast(predictions.device.type, enabled=False):
            predictions = F.normalize(predictions.float(), dim=1)
            cosines = (predictions * torch.cat([second, first])).sum(1)
            distances = distance(cosines)
            if further is not None and counts is not None:
                distances = distance(cosines, (predictions * further).sum(1), self.params.alpha * counts)
        return {"loss": 2 * distances.mean()}


def schedule_keep(first: float, step: int, steps: int) -> float:
    """The share of its weights that the teacher keeps in a step (from 0) of so many, as in BYOL's paper."""
    return 1 - (1 - first) * (math.cos(math.pi * step / steps) + 1) / 2


def distance(cosines: Tensor, negative_cosines: Tensor | None = None, alpha: Tensor | float = 0.0) -> Tensor:
    """``|z - p|^2 - alpha |z - n|^2`` of unit vectors, [N], from their cosines: ``cosines`` [N] of a predicted view and the other
    one, ``negative_cosines`` [N] of it and a negative (Ge et al. 2021, equation 2; its norms are squared).
    """
    from_other = 2 - 2 * cosines
    return from_other if negative_cosines is None else from_other - alpha * (2 - 2 * negative_cosines)
