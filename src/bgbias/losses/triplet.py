"""Triplet loss over every triplet of the batch (Schroff et al., CVPR 2015), on distances that are not squared."""

from __future__ import annotations

import torch
from pydantic import Field
from torch import nn

from bgbias.losses._full_precision import FullPrecision
from bgbias.strict import Strict

IMAGES_PER_CLASS = 4
DISTANCE = "l2"


class Params(Strict):
    """The margin by which a negative must be farther than a positive, in Euclidean distance of unit vectors."""

    margin: float = Field(ge=0, le=2)


def build(params: Params, n_classes: int, dim: int, generator: torch.Generator) -> nn.Module:
    """Mean of non-zero [d(anchor, positive) - d(anchor, negative) + margin]+ over all triplets, without mining."""
    from pytorch_metric_learning.distances import LpDistance
    from pytorch_metric_learning.losses import TripletMarginLoss
    from pytorch_metric_learning.reducers import AvgNonZeroReducer

    return FullPrecision(
        TripletMarginLoss(
            margin=params.margin,
            swap=False,
            smooth_loss=False,
            triplets_per_anchor="all",
            distance=LpDistance(normalize_embeddings=True, p=2, power=1),
            reducer=AvgNonZeroReducer(),
            embedding_regularizer=None,
        )
    )
