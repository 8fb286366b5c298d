"""The quadruplet loss's own arithmetic; pytorch-metric-learning has none."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from bgbias.training.losses._euclidean import EuclideanDistance


class Quadruplets(nn.Module):
    """Both terms, from all Euclidean distances of a batch."""

    def __init__(self, margin: float) -> None:
        super().__init__()
        self.margin, self.distance = margin, EuclideanDistance()

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """Scalar loss of unit-length embeddings [B, d] with labels [B]; 0 where nothing violates a margin."""
        distances = self.distance(embeddings)
        same = labels[:, None] == labels[None]
        positive = same.triu(1).nonzero()
        anchors = torch.cat((positive, positive.flip(1)))
        to_positive = distances[anchors[:, 0], anchors[:, 1], None]
        to_negative = to_positive - distances[anchors[:, 0]] + self.margin

        # Unordered pairs suffice here: the mean over ordered ones is the same.
        strangers = (~same).triu(1).nonzero()
        foreign = ~same[positive[:, 0]]
        apart = to_positive[: len(positive)] - distances[strangers[:, 0], strangers[:, 1]] + self.margin / 2
        elsewhere = foreign[:, strangers[:, 0]] & foreign[:, strangers[:, 1]]
        return _mean_of_violations(to_negative, ~same[anchors[:, 0]]) + _mean_of_violations(apart, elsewhere)


def _mean_of_violations(excess: Tensor, counts: Tensor) -> Tensor:
    violations = excess.relu() * counts
    return violations.sum() / (violations > 0).sum().clamp(min=1)
