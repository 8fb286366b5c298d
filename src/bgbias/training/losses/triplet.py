"""Triplet loss over all triplets of a batch, distances not squared (Schroff et al., CVPR 2015)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from bgbias.settings import Strict

if TYPE_CHECKING:
    import torch
    from torch import nn

TITLE = "Triplet"
PLACE = 2
IMAGES_PER_CLASS = 4
DISTANCE = "l2"


class Params(Strict):
    """By how much farther a negative must be than a positive, in Euclidean distance of unit vectors."""

    margin: float = Field(ge=0, le=2)


def build(params: Params, n_classes: int, dim: int, generator: torch.Generator) -> nn.Module:
    """Mean of non-zero [d(anchor, positive) - d(anchor, negative) + margin]+ over all triplets, no mining."""
    from pytorch_metric_learning.losses import TripletMarginLoss
    from pytorch_metric_learning.reducers import AvgNonZeroReducer

    from bgbias.training.losses._parts import EuclideanDistance, FullPrecision

    distance, reducer = EuclideanDistance(), AvgNonZeroReducer()
    return FullPrecision(TripletMarginLoss(params.margin, distance=distance, reducer=reducer))
