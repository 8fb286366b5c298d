"""ArcFace: softmax over cosines to class weights, own angle plus a margin (Deng et al., CVPR 2019)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from bgbias.settings import Strict

if TYPE_CHECKING:
    import torch
    from torch import nn

TITLE = "ArcFace"
PLACE = 5
IMAGES_PER_CLASS = 1
CLASS_WEIGHTS = True
DISTANCE = "cosine"


class Params(Strict):
    """Margin, scale, and the learning rate of the class weights."""

    margin: float = Field(ge=0, lt=180, description="degrees")
    scale: float = Field(gt=0)
    lr: float = Field(gt=0, description="learning rate of the class weights")


def build(params: Params, n_classes: int, dim: int, generator: torch.Generator) -> nn.Module:
    """Cross-entropy of scale * cosine, the own class's cosine replaced by cos(angle + margin).

    Where angle + margin would pass 180 degrees, cos(angle) - margin * sin(margin) (margin in radians) goes on
    falling. Class weights [dim, n_classes] are drawn from N(0, 1) by ``generator`` and normalised in use.
    """
    from pytorch_metric_learning.distances import CosineSimilarity
    from pytorch_metric_learning.losses import ArcFaceLoss

    from bgbias.training.losses._parts import with_class_weights

    return with_class_weights(
        ArcFaceLoss, n_classes, dim, generator, CosineSimilarity(), margin=params.margin, scale=params.scale
    )
