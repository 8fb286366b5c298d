"""Normalized softmax: cross-entropy of cosines to class weights over a temperature (Zhai & Wu, BMVC 2019)."""

from __future__ import annotations

from pydantic import Field

from bgbias.compute.lazy import nn, torch
from bgbias.settings import Strict

TITLE = "Normalized Softmax"
PLACE = 6
IMAGES_PER_CLASS = 1
CLASS_WEIGHTS = True
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

    from bgbias.training.losses._parts import with_class_weights

    kind, distance = NormalizedSoftmaxLoss, DotProductSimilarity(normalize_embeddings=True)
    return with_class_weights(kind, n_classes, dim, generator, distance, temperature=params.temperature)
