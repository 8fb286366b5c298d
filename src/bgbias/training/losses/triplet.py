"""Triplet loss over all triplets of a batch (Schroff et al., CVPR 2015), and quadruplet loss over all quadruplets (Chen et al.,
CVPR 2017; docs/methods.md, section 7); distances are not squared.
"""

from __future__ import annotations

from pydantic import Field

from bgbias.compute.lazy import Tensor, nn, torch
from bgbias.settings import Strict
from bgbias.training.losses._terms import mean_of_violations

TITLE = "Triplet"
PLACE = 2
IMAGES_PER_CLASS = 4
DISTANCE = "l2"


class Params(Strict):
    """By how much farther a negative must be than a positive, in Euclidean distance of unit vectors; in the quadruplet loss half
    of it for negatives of each other.
    """

    margin: float = Field(ge=0, le=2)


def build(params: Params, n_classes: int, dim: int, generator: torch.Generator) -> nn.Module:
    """Mean of non-zero [d(anchor, positive) - d(anchor, negative) + margin]+ over all triplets, no mining."""
    from bgbias.training.losses._parts import of_library

    return of_library("TripletMarginLoss", DISTANCE, margin=params.margin)


def quadruplet(params: Params, n_classes: int, dim: int, generator: torch.Generator) -> nn.Module:
    """Mean of non-zero [d(a, p) - d(a, n) + m]+ over triplets plus that of [d(a, p) - d(n1, n2) + m/2]+ over
    quadruplets, whose n1 and n2 are of two further classes; no mining.
    """
    from bgbias.training.losses._parts import EuclideanDistance, FullPrecision

    margin, distance = params.margin, EuclideanDistance()

    def loss(embeddings: Tensor, labels: Tensor) -> Tensor:
        distances = distance(embeddings)
        same = labels[:, None] == labels[None]
        positive = same.triu(1).nonzero()
        anchors = torch.cat((positive, positive.flip(1)))
        to_positive = distances[anchors[:, 0], anchors[:, 1], None]
        to_negative = to_positive - distances[anchors[:, 0]] + margin

        # Unordered pairs suffice here: the mean over ordered ones is the same.
        strangers = (~same).triu(1).nonzero()
        foreign = ~same[positive[:, 0]]
        apart = to_positive[: len(positive)] - distances[strangers[:, 0], strangers[:, 1]] + margin / 2
        elsewhere = foreign[:, strangers[:, 0]] & foreign[:, strangers[:, 1]]
        return mean_of_violations(to_negative, ~same[anchors[:, 0]]) + mean_of_violations(apart, elsewhere)

    return FullPrecision(loss)


MEMBERS = {"quadruplet": {"TITLE": "Quadruplet", "PLACE": 3, "build": quadruplet}}
