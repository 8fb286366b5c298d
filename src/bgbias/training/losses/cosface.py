"""CosFace: softmax over cosines to class weights, own cosine less a margin (Wang et al., CVPR 2018)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from bgbias.settings import Strict

if TYPE_CHECKING:
    import torch
    from torch import nn

TITLE = "CosFace"
PLACE = 7
IMAGES_PER_CLASS = 1
CLASS_WEIGHTS = True
DISTANCE = "cosine"


class Params(Strict):
    """Margin on the cosine, scale, and the learning rate of the class weights."""

    margin: float = Field(ge=0, le=2)
    scale: float = Field(gt=0)
    lr: float = Field(gt=0, description="learning rate of the class weights")


def build(params: Params, n_classes: int, dim: int, generator: torch.Generator) -> nn.Module:
    """Cross-entropy of scale * cosine, the own class's cosine replaced by cosine - margin.

    Class weights [dim, n_classes] are drawn from N(0, 1) by ``generator`` and normalised in use.
    """
    from pytorch_metric_learning.distances import CosineSimilarity
    from pytorch_metric_learning.losses import CosFaceLoss

    from bgbias.training.losses._parts import with_class_weights

    return with_class_weights(
        CosFaceLoss, n_classes, dim, generator, CosineSimilarity(), margin=params.margin, scale=params.scale
    )
