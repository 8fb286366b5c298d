"""Softmax over cosines to class weights, with a margin for the own class: on its angle (ArcFace, Deng et al., CVPR 2019) or its
cosine (CosFace, Wang et al., CVPR 2018; docs/methods.md, section 1).
"""

from __future__ import annotations

from pydantic import Field

from bgbias.compute.lazy import nn, torch
from bgbias.settings import Strict

IMAGES_PER_CLASS = 1
CLASS_WEIGHTS = True
DISTANCE = "cosine"


class CosineMargin(Strict):
    """Margin on the cosine, scale, and the learning rate of the class weights."""

    margin: float = Field(ge=0, le=2)
    scale: float = Field(gt=0)
    lr: float = Field(gt=0, description="learning rate of the class weights")


class AngularMargin(CosineMargin):
    """Margin on the angle, scale, and the learning rate of the class weights."""

    margin: float = Field(ge=0, lt=180, description="degrees")


def build(params: CosineMargin, n_classes: int, dim: int, generator: torch.Generator) -> nn.Module:
    """Cross-entropy of scale * cosine, the own class's cosine replaced by cosine - margin (CosFace) or by
    cos(angle + margin) (ArcFace).

    Where angle + margin would pass 180 degrees, cos(angle) - margin * sin(margin) (margin in radians)
    goes on falling. Class weights [dim, n_classes] are drawn from N(0, 1) by ``generator`` and
    normalised in use.
    """
    from pytorch_metric_learning.distances import CosineSimilarity
    from pytorch_metric_learning.losses import ArcFaceLoss, CosFaceLoss

    from bgbias.training.losses._parts import with_class_weights

    kind = ArcFaceLoss if isinstance(params, AngularMargin) else CosFaceLoss
    options = {"margin": params.margin, "scale": params.scale}
    return with_class_weights(kind, n_classes, dim, generator, CosineSimilarity(), **options)


MEMBERS = {
    "arcface": {"TITLE": "ArcFace", "PLACE": 5, "Params": AngularMargin},
    "cosface": {"TITLE": "CosFace", "PLACE": 7, "Params": CosineMargin},
}
