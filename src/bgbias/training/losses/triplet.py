"""Triplet loss over all triplets of a batch (Schroff et al., CVPR 2015), and quadruplet loss over all quadruplets (Chen et al.,
CVPR 2017; docs/methods.md, section 7); distances are not squared.
"""

from __future__ import annotations

from pydantic import Field

from bgbias.compute.lazy import nn, torch
from bgbias.settings import Strict

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
    from pytorch_metric_learning.losses import TripletMarginLoss
    from pytorch_metric_learning.reducers import AvgNonZeroReducer

    from bgbias.training.losses._parts import EuclideanDistance, FullPrecision

    distance, reducer = EuclideanDistance(), AvgNonZeroReducer()
    return FullPrecision(TripletMarginLoss(params.margin, distance=distance, reducer=reducer))


def quadruplet(params: Params, n_classes: int, dim: int, generator: torch.Generator) -> nn.Module:
    """Mean of non-zero [d(a, p) - d(a, n) + m]+ over triplets plus that of [d(a, p) - d(n1, n2) + m/2]+ over
    quadruplets, whose n1 and n2 are of two further classes; no mining.
    """
    from bgbias.training.losses._parts import FullPrecision, Quadruplets

    return FullPrecision(Quadruplets(params.margin))


MEMBERS = {"quadruplet": {"TITLE": "Quadruplet", "PLACE": 3, "build": quadruplet}}
