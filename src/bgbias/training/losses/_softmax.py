"""Cross-entropies of cosines to class weights, some with a margin for the own class.

Class weights [dim, n_classes] are drawn from N(0, 1) by the generator and normalised in use.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, ClassVar

from pydantic import Field

from bgbias.compute.lazy import nn, torch
from bgbias.settings import Strict

IMAGES_PER_CLASS = 1
CLASS_WEIGHTS = True
DISTANCE = "cosine"


class Temperature(Strict):
    """Temperature, and the learning rate of the class weights."""

    LOSS: ClassVar[str] = "NormalizedSoftmaxLoss"

    temperature: float = Field(gt=0)
    lr: float = Field(gt=0, description="learning rate of the class weights")


class CosineMargin(Strict):
    """Margin on the cosine, scale, and the learning rate of the class weights."""

    LOSS: ClassVar[str] = "CosFaceLoss"

    margin: float = Field(ge=0, le=2)
    scale: float = Field(gt=0)
    lr: float = Field(gt=0, description="learning rate of the class weights")


class AngularMargin(CosineMargin):
    """Margin on the angle, scale, and the learning rate of the class weights."""

    LOSS: ClassVar[str] = "ArcFaceLoss"

    margin: float = Field(ge=0, lt=180, description="degrees")


class ClampedMargin(Strict):
    """As published."""

    margin: float = Field(0.5, ge=0, le=math.pi / 2, description="radians")
    scale: float = Field(16.0, gt=0)
    lr: float = Field(5e-4, gt=0, description="learning rate of the class weights")
    bug: bool = Field(False, description="the margin moves all logits alike: a softmax without one")


def build(params: Any, n_classes: int, dim: int, generator: torch.Generator) -> nn.Module:
    """The loss of pytorch-metric-learning that the settings are of."""
    from bgbias.training.losses._parts import of_library

    return of_library(
        params.LOSS,
        DISTANCE,
        num_classes=n_classes,
        embedding_size=dim,
        weight_init_func=partial(nn.init.normal_, mean=0.0, std=1.0, generator=generator),
        **params.model_dump(exclude={"lr"}),
    )


def clamped(params: ClampedMargin, n_classes: int, dim: int, generator: torch.Generator) -> nn.Module:
    """Cross-entropy of scale * cosine, the own class's replaced by cos(angle + margin); cosines below 0
    count as 0.
    """
    from bgbias.training.losses._parts import ClampedArcFace, FullPrecision

    return FullPrecision(ClampedArcFace(params.margin, params.scale, params.bug, n_classes, dim, generator))


MEMBERS: dict[str, dict[str, Any]] = {
    "arcface": {
        "__doc__": "Softmax over cosines to class weights, the own class's cosine replaced by cos(angle + margin)"
        " (ArcFace, Deng et al., CVPR 2019; docs/methods.md, section 1). Where angle + margin would pass 180 degrees,"
        " cos(angle) - margin * sin(margin) (margin in radians) goes on falling.",
        "TITLE": "ArcFace",
        "PLACE": 5,
        "Params": AngularMargin,
    },
    "normalized_softmax": {
        "__doc__": "Normalized softmax: cross-entropy of cosines to class weights over a temperature (Zhai & Wu,"
        " BMVC 2019; docs/methods.md, section 1).",
        "TITLE": "Normalized Softmax",
        "PLACE": 6,
        "Params": Temperature,
    },
    "cosface": {
        "__doc__": "Softmax over cosines to class weights, the own class's cosine replaced by cosine - margin"
        " (CosFace, Wang et al., CVPR 2018; docs/methods.md, section 1).",
        "TITLE": "CosFace",
        "PLACE": 7,
        "Params": CosineMargin,
    },
    "roth_arcface": {
        "__doc__": "ArcFace of MDProp's tables as the code behind it has it, with or without that code's bug (Roth et al.,"
        " ICML 2020; docs/methods.md, section 8).",
        "TITLE": "ArcFace (clamped)",
        "PLACE": 12,
        "IMAGES_PER_CLASS": 2,
        "Params": ClampedMargin,
        "build": clamped,
    },
}
