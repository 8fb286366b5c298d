"""Multi-similarity loss (Wang et al., CVPR 2019), without its miner, as Kobs & Hotho 2022 use it."""

from __future__ import annotations

from pydantic import Field

from bgbias.compute.lazy import nn, torch
from bgbias.settings import Strict

TITLE = "Multi Similarity"
PLACE = 4
IMAGES_PER_CLASS = 4
DISTANCE = "cosine"


class Params(Strict):
    """Sharpness for positives and negatives, and the cosine similarity at which both turn."""

    alpha: float = Field(gt=0, description="of positives")
    beta: float = Field(gt=0, description="of negatives")
    base: float = Field(ge=-1, le=1, description="lambda in the paper")


def build(params: Params, n_classes: int, dim: int, generator: torch.Generator) -> nn.Module:
    """Mean of log(1 + sum_p e^(-alpha (s - base)))/alpha + log(1 + sum_n e^(beta (s - base)))/beta."""
    from pytorch_metric_learning.distances import CosineSimilarity
    from pytorch_metric_learning.losses import MultiSimilarityLoss
    from pytorch_metric_learning.reducers import MeanReducer

    from bgbias.training.losses._parts import FullPrecision

    distance, reducer = CosineSimilarity(), MeanReducer()
    return FullPrecision(MultiSimilarityLoss(**params.model_dump(), distance=distance, reducer=reducer))
