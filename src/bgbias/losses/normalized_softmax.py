"""Normalized softmax: cross-entropy of cosines to class weights over a temperature (Zhai & Wu, BMVC 2019)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pydantic import Field

from bgbias.strict import Strict

if TYPE_CHECKING:
    import torch
    from torch import nn

IMAGES_PER_CLASS = 1
DISTANCE = "cosine"


class Params(Strict):
    """Temperature, and the learning rate of the class weights."""

    temperature: float = Field(gt=0)
    lr: float = Field(gt=0, description="learning rate of the class weights")


def build(params: Params, n_classes: int, dim: int, generator: torch.Generator) -> nn.Module:
    """Cross-entropy of cosine / temperature.

    Class weights [dim, n_classes] are drawn from N(0, 1) by ``generator`` and normalised in use.
    """
    from pytorch_metric_learning.distances import DotProductSimilarity
    from pytorch_metric_learning.losses import NormalizedSoftmaxLoss
    from pytorch_metric_learning.reducers import MeanReducer
    from torch import nn

    from bgbias.losses._full_precision import FullPrecision

    return FullPrecision(
        NormalizedSoftmaxLoss(
            num_classes=n_classes,
            embedding_size=dim,
            temperature=params.temperature,
            weight_init_func=partial(nn.init.normal_, mean=0.0, std=1.0, generator=generator),
            weight_regularizer=None,
            distance=DotProductSimilarity(normalize_embeddings=True),
            reducer=MeanReducer(),
            embedding_regularizer=None,
        )
    )
